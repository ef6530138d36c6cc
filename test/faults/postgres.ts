import { execFileSync } from "node:child_process"
import {
  appendFileSync,
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Sql } from "postgres"
import { type Cluster, openCluster, USER } from "../../src/embedded/cluster.ts"
import { type ClusterPlace, findPlace } from "../../src/embedded/place.ts"
import {
  makeSocketFolder,
  type PostgresServer,
  socketPath,
  startServer,
  stopServer,
} from "../../src/embedded/postgres.ts"
import { connect, type SocketAddress } from "../../src/ledger/database/address.ts"

const DATABASE = "postgres"

/** To the user that Postgres runs as. */
function give(folder: string, { runner }: ClusterPlace): void {
  if (runner !== undefined) execFileSync("chown", ["-Rh", `${runner.uid}:${runner.gid}`, folder])
}

/** A Postgres of a test's own, to do with as it likes: of any other, other tests would notice. */
export class Postgres {
  readonly #folder: string
  readonly #place: ClusterPlace
  readonly #cluster: Cluster
  readonly #socket_folder: string
  #server: PostgresServer | null = null

  private constructor(folder: string, place: ClusterPlace, cluster: Cluster) {
    this.#folder = folder
    this.#place = place
    this.#cluster = cluster
    this.#socket_folder = makeSocketFolder(place)
  }

  /** Not started. */
  static async make(): Promise<Postgres> {
    const folder = makeFolder()
    const place = findPlace(folder)
    return new Postgres(folder, place, await openCluster(place, false))
  }

  /** A standby that follows this one from its first byte on; neither has been started. */
  async standby(): Promise<Postgres> {
    const folder = makeFolder()
    // Of the same user, which may open the socket of this one.
    const { runner } = this.#place
    const place = { folder: findPlace(folder).folder, runner }
    if (runner !== undefined) chownSync(place.folder, 0, runner.gid)
    const copy = join(place.folder, "cluster")
    mkdirSync(copy, { mode: 0o700 })
    cpSync(this.#cluster.folder, copy, { recursive: true })
    writeFileSync(join(copy, "standby.signal"), "")
    const source = `host=${this.#socket_folder} user=${USER}`
    appendFileSync(join(copy, "postgresql.auto.conf"), `primary_conninfo = '${source}'\n`)
    give(copy, place)
    return new Postgres(folder, place, await openCluster(place, false))
  }

  get address(): SocketAddress {
    return { socket_path: join(this.#socket_folder, ".s.PGSQL.5432"), user: USER, database: DATABASE }
  }

  async start(): Promise<void> {
    this.#server = await startServer(this.#place, this.#cluster, this.#socket_folder, false)
    if (socketPath(this.#server) !== this.address.socket_path) throw new Error("it listens elsewhere")
  }

  /** Says something to it as its superuser. */
  async tell<Row extends object = object>(text: string): Promise<readonly Row[]> {
    const sql: Sql = connect(this.address, { max: 1, onnotice: () => {} })
    try {
      return await sql.unsafe<Row[]>(text)
    } finally {
      await sql.end({ timeout: 1 })
    }
  }

  /** Nothing of it runs any more; it wrote nothing down before. */
  async crash(): Promise<void> {
    const server = this.#running()
    process.kill(server.pid, "SIGQUIT")
    await stopServer(server, this.#cluster)
    mkdirSync(this.#socket_folder, { recursive: true, mode: 0o700 })
    give(this.#socket_folder, this.#place)
    this.#server = null
  }

  freeze(): void {
    for (const pid of this.#pids()) process.kill(pid, "SIGSTOP")
  }

  thaw(): void {
    for (const pid of this.#pids()) process.kill(pid, "SIGCONT")
  }

  async clear(): Promise<void> {
    if (this.#server !== null) {
      this.thaw()
      await this.crash()
    }
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #pids(): number[] {
    const { pid } = this.#running()
    const children = execFileSync("pgrep", ["-P", String(pid)], { encoding: "utf8" })
    return [pid, ...children.split("\n").filter(Boolean).map(Number)]
  }

  #running(): PostgresServer {
    if (this.#server === null) throw new Error("this Postgres does not run")
    return this.#server
  }
}

/** As root, Postgres' user must be able to enter it. */
function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-postgres-"))
  chmodSync(folder, 0o755)
  return folder
}
