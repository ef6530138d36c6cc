import { spawnSync } from "node:child_process"
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { SocketAddress } from "../../src/ledger/database/address.ts"

const INSTALLED = "/usr/lib/postgresql"

/** Where this machine has a Postgres of its own, older than the embedded one; null when it has none. */
export const older: string | null =
  (existsSync(INSTALLED) ? readdirSync(INSTALLED) : [])
    .filter((version) => Number(version) < 18)
    .map((version) => join(INSTALLED, version, "bin"))
    .find((bin) =>
      ["initdb", "pg_ctl", "pg_dump", "pg_restore", "psql"].every((name) => existsSync(join(bin, name))),
    ) ?? null

/** A server of that version with one empty database, behind a socket. */
export class OlderPostgres {
  readonly #bin: string
  readonly #folder = mkdtempSync(join(tmpdir(), "tollgate-older-"))
  readonly #runner = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined
  readonly address: SocketAddress = {
    socket_path: join(this.#folder, ".s.PGSQL.5432"),
    user: "tollgate",
    database: "postgres",
  }

  constructor(bin: string) {
    this.#bin = bin
    chmodSync(this.#folder, 0o755)
    if (this.#runner !== undefined) chownSync(this.#folder, this.#runner.uid, this.#runner.gid)
    const cluster = join(this.#folder, "cluster")
    this.#run("initdb", `--pgdata=${cluster}`, "--username=tollgate", "--auth=trust", "--no-sync")
    const settings = `-c listen_addresses= -c unix_socket_directories=${this.#folder} -c fsync=off`
    this.#run(
      "pg_ctl",
      "start",
      "--wait",
      `--pgdata=${cluster}`,
      `--options=${settings}`,
      `--log=${cluster}/log`,
    )
  }

  /** The connection string of its database. */
  get url(): string {
    return connectionOf(this.address)
  }

  stop(): void {
    this.#run("pg_ctl", "stop", "--wait", "--mode=immediate", `--pgdata=${join(this.#folder, "cluster")}`)
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #run(program: string, ...args: readonly string[]): void {
    const { status, stderr } = spawnSync(join(this.#bin, program), args, {
      ...this.#runner,
      cwd: "/",
      encoding: "utf8",
      stdio: ["ignore", "ignore", "pipe"],
    })
    if (status !== 0) throw new Error(`${program}: ${stderr}`)
  }
}

/** As the programs of Postgres take it. */
export function connectionOf({ socket_path, user, database }: SocketAddress): string {
  return `host=${join(socket_path, "..")} user=${user} dbname=${database}`
}
