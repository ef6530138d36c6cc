import * as fs from "node:fs"
import { connect, type SocketAddress } from "../ledger/database/address.ts"
import type { LedgerLog } from "../ledger/events.ts"
import { existingCluster, openCluster, USER } from "./cluster.ts"
import { lockFolder, makeDataDir } from "./lock.ts"
import { existingPlace, findPlace, isForeign, takeOver } from "./place.ts"
import * as postgres from "./postgres.ts"
import { requirePrograms } from "./programs.ts"

export type Embedded = Awaited<ReturnType<typeof startEmbedded>>

const DATABASE = "tollgate"

/**
 * Starts Postgres on `data_dir` or adopts one that a killed gateway has left there, and restarts it. Throws a sentence for the operator.
 * `stop` also unlocks the data directory, so that only the data is left.
 */
export async function startEmbedded(options: {
  readonly data_dir: string
  readonly log: LedgerLog
  readonly durable?: boolean
}) {
  const { data_dir, log, durable = true } = options
  requirePrograms()
  const folder = makeDataDir(data_dir)
  const closing = new AsyncDisposableStack()
  try {
    closing.defer(lockFolder(folder))
    const place = findPlace(folder)
    // A copied data directory points to the original's place, where the original's gateway may be running.
    closing.defer(lockFolder(place.folder))
    const old = isForeign(place) ? await runningIn(place.folder) : null
    if (old !== null) await postgres.stopServer(old.server, old.cluster)
    takeOver(place)
    const cluster = await openCluster(place, durable)
    const found = await postgres.findServer(cluster)
    const socket_folder = found?.socket_folder ?? postgres.makeSocketFolder(place)
    const start = () => postgres.startServer(place, cluster, socket_folder, durable)
    let server = found ?? (await start())
    closing.defer(() => postgres.stopServer(server, cluster))
    const address = addressOf(server)
    await ensureDatabase(address)
    const restart = async () => {
      server = (await postgres.findServer(cluster)) ?? (await start())
    }
    closing.defer(watch(() => postgres.isRunning(server, cluster), restart, log))
    const adopted = found !== undefined
    const facts = { place: place.folder, server_pid: server.pid }
    log.info(facts, `embedded Postgres ${adopted ? "adopted" : "started"}`)
    return { address, adopted, stop: () => closing.disposeAsync() }
  } catch (error) {
    await closing.disposeAsync()
    throw error
  }
}

/** The address of the Postgres that runs on `data_dir`, with or without its gateway; null if none does. Starts nothing. */
export async function findEmbedded(data_dir: string): Promise<SocketAddress | null> {
  if (!fs.existsSync(data_dir)) return null
  const place = existingPlace(fs.realpathSync(data_dir))
  const running = place === null ? null : await runningIn(place)
  return running === null ? null : addressOf(running.server)
}

async function runningIn(place_folder: string) {
  const cluster = existingCluster(place_folder)
  const server = cluster === null ? undefined : await postgres.findServer(cluster)
  return cluster === null || server === undefined ? null : { cluster, server }
}

function addressOf(server: postgres.PostgresServer): SocketAddress {
  return { socket_path: postgres.socketPath(server), user: USER, database: DATABASE }
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

/** The interval at which the server is checked. An outage lasts at most this long, plus the time of a start. */
const LOOK_MS = 500

/** Calls `start` when anything but the gateway has stopped the server (D27). Returns how to stop, which waits for a start. */
function watch(runs: () => boolean, start: () => Promise<void>, log: LedgerLog): () => Promise<void> {
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
