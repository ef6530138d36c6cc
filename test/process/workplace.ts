import { afterAll } from "bun:test"
import { execFileSync } from "node:child_process"
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { drizzle } from "drizzle-orm/postgres-js"
import { audit } from "../../src/ledger/archive/audit.ts"
import type { Address } from "../../src/ledger/database/address.ts"
import { type CallRecord, listCalls } from "../../src/ledger/reports/calls.ts"
import { freshDatabase, withSql } from "../support/database.ts"
import { freePort } from "../support/free-port.ts"
import { type ConfigChanges, configFor } from "../support/gateway.ts"
import { ADMIN_TOKEN } from "../support/operator.ts"
import { GATEWAY_FILE } from "../support/programs.ts"
import { startProvider } from "../support/provider.ts"
import { GatewayProcess, type Variables } from "./gateway-process.ts"

export interface Spawning {
  /** Whether it gets a process group of its own, as it has in a terminal. */
  readonly own_group?: boolean
  /** The command line. */
  readonly args?: readonly string[]
  /** The program, if not the bundled one. */
  readonly file?: string
}

/** A folder in which gateways are started, as a user would: with their file and their data in it. */
export class Workplace {
  readonly folder = mkdtempSync(join(tmpdir(), "tollgate-process-"))
  readonly data_dir: string
  readonly #gateways: GatewayProcess[] = []

  constructor(data_dir = "data") {
    this.data_dir = join(this.folder, data_dir)
    // As root, Postgres' user must be able to enter it.
    chmodSync(this.folder, 0o755)
  }

  /** Writes the file that a gateway takes by default. */
  configure(config: object): void {
    writeFileSync(join(this.folder, "tollgate.yaml"), JSON.stringify(config))
  }

  /** Starts a gateway with the environment of contract.md, and nothing of this process' own but its path and its home. */
  spawn(
    variables: Variables = {},
    { own_group = false, args = [], file = GATEWAY_FILE }: Spawning = {},
  ): GatewayProcess {
    const { PATH = "", HOME = "/" } = process.env
    const env = {
      PATH,
      HOME,
      // Workers find a port and listen on it some time later.
      PORT: String(freePort()),
      TOLLGATE_DATA_DIR: this.data_dir,
      TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN,
      ...variables,
    }
    const gateway = new GatewayProcess(this.folder, env, [file, ...args], own_group)
    this.#gateways.push(gateway)
    return gateway
  }

  /** The same, and waits until it listens. */
  async start(variables: Variables = {}, spawning: Spawning = {}): Promise<GatewayProcess> {
    const gateway = this.spawn(variables, spawning)
    await gateway.prints("tollgate listening on ")
    return gateway
  }

  /**
   * What is in the folder; below the data directory its first level only. Without an empty spool, which a settlement leaves
   * that takes longer than 150 ms (D27).
   */
  files(): string[] {
    const spool = join(this.data_dir, "spool")
    const inside = (folder: string): string[] =>
      readdirSync(folder)
        .filter((name) => join(folder, name) !== spool || inside(spool).length > 0)
        .sort()
    return inside(this.folder).flatMap((name) =>
      join(this.folder, name) === this.data_dir
        ? inside(this.data_dir).map((file) => join(name, file))
        : name,
    )
  }

  /** The pids of the embedded Postgres, its helpers and its sessions. */
  postgres(): number[] {
    const cluster = join(this.data_dir, "postgres/cluster")
    const { dev, ino } = statSync(cluster, { throwIfNoEntry: false }) ?? { dev: 0, ino: 0 }
    const titles = [`-D ${cluster} `, `tollgate-${dev}-${ino}:`]
    return execFileSync("ps", ["-eo", "pid=,args="], { encoding: "utf8" })
      .split("\n")
      .filter((line) => line.includes("postgres") && titles.some((title) => line.includes(title)))
      .map((line) => Number.parseInt(line, 10))
  }

  async killGateways(): Promise<void> {
    await Promise.all(this.#gateways.splice(0).map((gateway) => gateway.kill()))
  }

  /** Kills what runs, and removes everything: also the provider and the database that were used. */
  async clear(provider?: { stop(): Promise<void> }, database?: { drop(): Promise<void> }): Promise<void> {
    await this.killGateways()
    while (this.postgres().length > 0) {
      for (const pid of this.postgres()) kill(pid)
      await Bun.sleep(20)
    }
    rmSync(this.folder, { recursive: true, force: true })
    await provider?.stop()
    await database?.drop()
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGQUIT")
  } catch {
    // It has ended by itself.
  }
}

/** The variables by which a gateway finds a database; the test cluster has no TCP port, only a socket. */
export function databaseVariables(address: Address): Variables {
  if ("url" in address) return { DATABASE_URL: address.url }
  const { socket_path, user, database } = address
  return { DATABASE_URL: `postgres:///${database}`, PGHOST: dirname(socket_path), PGUSER: user }
}

/** A place with a file, a provider and a fresh database for the tests of a file, which are cleared after the last one. */
export async function testPlace(changes: ConfigChanges = {}) {
  const place = new Workplace()
  const provider = await startProvider()
  const fresh = await freshDatabase()
  afterAll(() => place.clear(provider, fresh))
  place.configure(configFor(provider.url, changes))
  const start = (variables: Variables = {}) =>
    place.start({ ...databaseVariables(fresh.address), ...variables })
  return { place, provider, fresh, start }
}

/** What the ledger says when no gateway runs: its audit, and the latest calls. */
export async function readLedger(
  address: Address,
): Promise<{ open_holds: number; violations: readonly unknown[]; calls: readonly CallRecord[] }> {
  return withSql(address, async (sql) => {
    const database = drizzle(sql)
    const { open_holds, violations } = await audit(database)
    const { data } = await listCalls(database, {}, { limit: 1_000, after: null })
    return { open_holds, violations, calls: data }
  })
}
