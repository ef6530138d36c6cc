import { mkdirSync, realpathSync } from "node:fs"
import { connect, type SocketAddress } from "./address.ts"
import { setUpCluster, USER } from "./embedded/cluster.ts"
import { findPlace } from "./embedded/place.ts"
import { findPrograms } from "./embedded/programs.ts"
import { findServer, type Server, socketPath, startServer, stopServer } from "./embedded/server.ts"
import { lockFolder } from "./lock.ts"

/** The Postgres that the gateway brings along and runs itself. */
export interface Embedded {
  readonly address: SocketAddress
  /** Whether it was found running, left by a gateway that was killed. */
  readonly adopted: boolean
  /** Stops Postgres and gives up the data directory; nothing is left but the data. */
  stop(): Promise<void>
}

export interface EmbeddedOptions {
  readonly data_dir: string
  readonly log: { info(fields: object, message: string): void }
  /** False gives up what survives a power cut, for speed: for tests only. */
  readonly durable?: boolean
}

const DATABASE = "tollgate"

/**
 * Starts Postgres on `data_dir`, or adopts the one that a killed gateway left there. Throws a sentence for the operator
 * when another gateway uses `data_dir`, when this machine has no embedded Postgres, and when Postgres does not start.
 */
export async function startEmbedded({ data_dir, log, durable = true }: EmbeddedOptions): Promise<Embedded> {
  mkdirSync(data_dir, { recursive: true, mode: 0o755 })
  const folder = realpathSync(data_dir)
  const lock = lockFolder(folder)
  try {
    const place = findPlace(folder)
    const programs = findPrograms(place.folder, place.runner)
    const cluster = await setUpCluster(place, programs, durable)
    const found = await findServer(cluster)
    const server = found ?? (await startServer(place, programs, cluster, durable))
    const address = { socket_path: socketPath(server), user: USER, database: DATABASE }
    await ensureDatabase(server)
    log.info(
      { place: place.folder, pid: server.pid, adopted: found !== undefined },
      "embedded Postgres is ready",
    )
    return {
      address,
      adopted: found !== undefined,
      async stop() {
        await stopServer(server, cluster)
        lock.release()
      },
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

async function ensureDatabase(server: Server): Promise<void> {
  const client = connect({ socket_path: socketPath(server), user: USER, database: "postgres" }, { max: 1 })
  try {
    const [existing] = await client`select 1 from pg_database where datname = ${DATABASE}`
    if (existing === undefined) await client`create database ${client(DATABASE)}`
  } finally {
    await client.end()
  }
}
