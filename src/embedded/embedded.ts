import { existsSync, mkdirSync, realpathSync } from "node:fs"
import { connect, type SocketAddress } from "../ledger/database/address.ts"
import type { Log } from "../ledger/events.ts"
import { existingCluster, openCluster, USER } from "./cluster.ts"
import { lockFolder } from "./lock.ts"
import { existingPlace, findPlace, isForeign, type Place, takeOver } from "./place.ts"
import {
  findServer,
  isRunning,
  makeSocketFolder,
  type Server,
  socketPath,
  startServer,
  stopServer,
} from "./postgres.ts"
import { requirePrograms } from "./programs.ts"

/** The embedded Postgres, which the gateway runs itself. */
export interface Embedded {
  readonly address: SocketAddress
  /** Whether it was already running, left by a gateway that was killed. */
  readonly adopted: boolean
  /** Stops Postgres and unlocks the data directory. Only the data is left. */
  stop(): Promise<void>
}

interface EmbeddedOptions {
  /** Created if it does not exist. */
  readonly data_dir: string
  readonly log: Log
  /** False: faster, but a power failure can lose data. For tests only. */
  readonly durable?: boolean
}

const DATABASE = "tollgate"

/**
 * Starts Postgres on `data_dir`, or adopts the one that a killed gateway left there. It is restarted if it dies. Throws
 * a sentence for the operator if another gateway uses `data_dir`, if there is no embedded Postgres for this machine, or
 * if Postgres does not start.
 */
export async function startEmbedded({ data_dir, log, durable = true }: EmbeddedOptions): Promise<Embedded> {
  requirePrograms()
  mkdirSync(data_dir, { recursive: true })
  const folder = realpathSync(data_dir)
  const closing = new AsyncDisposableStack()
  try {
    closing.defer(lockFolder(folder).release)
    const place = findPlace(folder)
    // A copied data directory points to the original's place, where the original's gateway may be running.
    closing.defer(lockFolder(place.folder).release)
    if (isForeign(place)) await stopOld(place)
    takeOver(place)
    const cluster = await openCluster(place, durable)
    const found = await findServer(cluster)
    const socket_folder = found?.socket_folder ?? makeSocketFolder(place)
    const start = () => startServer(place, cluster, socket_folder, durable)
    let server = found ?? (await start())
    closing.defer(() => stopServer(server, cluster))
    const address = addressOf(server)
    await ensureDatabase(address)
    const restart = async () => {
      server = (await findServer(cluster)) ?? (await start())
    }
    closing.defer(watch(() => isRunning(server, cluster), restart, log))
    const adopted = found !== undefined
    log.info(
      { place: place.folder, server_pid: server.pid },
      `embedded Postgres ${adopted ? "adopted" : "started"}`,
    )
    return { address, adopted, stop: () => closing.disposeAsync() }
  } catch (error) {
    await closing.disposeAsync()
    throw error
  }
}

/**
 * The address of the Postgres that runs on `data_dir`, with or without its gateway; null if none does. Starts and
 * creates nothing.
 */
export async function findEmbedded(data_dir: string): Promise<SocketAddress | null> {
  if (!existsSync(data_dir)) return null
  const place = existingPlace(realpathSync(data_dir))
  const cluster = place === null ? null : existingCluster(place)
  const server = cluster === null ? undefined : await findServer(cluster)
  return server === undefined ? null : addressOf(server)
}

function addressOf(server: Server): SocketAddress {
  return { socket_path: socketPath(server), user: USER, database: DATABASE }
}

/** Stops the server that an earlier version left running as another user. */
async function stopOld(place: Place): Promise<void> {
  const cluster = existingCluster(place.folder)
  const server = cluster === null ? undefined : await findServer(cluster)
  if (cluster !== null && server !== undefined) await stopServer(server, cluster)
}

async function ensureDatabase(address: SocketAddress): Promise<void> {
  const client = connect({ ...address, database: "postgres" }, { max: 1 })
  try {
    const [existing] = await client`select 1 from pg_database where datname = ${address.database}`
    if (existing === undefined) await client`create database ${client(address.database)}`
  } finally {
    await client.end()
  }
}

/** How often the server is looked at. An outage lasts at most this long, plus the time of a start. */
const LOOK_MS = 500

/**
 * Calls `start` whenever something other than the gateway has stopped the server (D27). Returns how to stop watching,
 * which waits for a start that has begun.
 */
function watch(runs: () => boolean, start: () => Promise<void>, log: Log): () => Promise<void> {
  let starting: Promise<void> | undefined
  const timer = setInterval(() => {
    if (starting !== undefined || runs()) return
    log.error({}, "embedded Postgres stopped unexpectedly: restarting it")
    starting = start()
      .then(() => log.info({}, "embedded Postgres was restarted"))
      .catch((err: unknown) => log.error({ err }, "embedded Postgres could not be restarted"))
      .finally(() => {
        starting = undefined
      })
  }, LOOK_MS)
  timer.unref()
  return async () => {
    clearInterval(timer)
    await starting
  }
}
