import { Socket } from "node:net"
import postgres from "postgres"
import { hostOf } from "../../wire/host.ts"
import { errorCode } from "./database-errors.ts"
import { singleHosts } from "./database-url.ts"
import { withDeadline } from "./deadline.ts"

/** Deadline of a host's answer whether it is the primary. */
const ASK_MS = 2_000
/** Wait for the other hosts after one has answered that it is the primary. */
const OTHERS_MS = 500
const USUAL_PORT = 5432

interface Host {
  readonly host: string
  readonly port: number
  readonly url: string
}

interface OpenConnection {
  readonly host: Host
  end(): void
  isClosed(): boolean
}

/** No host of the URL takes writes now. Nothing was sent. */
class NoPrimary extends Error {
  override readonly name = "NoPrimary"
  readonly code = "NO_PRIMARY"
}

export type Hosts = ReturnType<typeof openHosts>

const known_hosts = new Map<string, Hosts>()

/** The hosts of one URL. A process has one object for each URL, so that connections that open together ask once. */
export function hostsOf(url: string): Hosts {
  const hosts = known_hosts.get(url) ?? openHosts(url)
  known_hosts.set(url, hosts)
  return hosts
}

function openHosts(url: string) {
  const hosts = singleHosts(url).map((alone): Host => {
    return { host: hostOf(alone), port: Number(alone.port || USUAL_PORT), url: alone.href }
  })
  const open = new Set<OpenConnection>()
  let asking: Promise<Host> | null = null
  let last_timeline = 0

  /** The host that takes writes. Rejects with `NoPrimary`, which says why each host was not taken. */
  function primary(): Promise<Host> {
    asking ??= findPrimary().finally(() => {
      asking = null
    })
    return asking
  }

  /** Notes a connection, to be ended once another host is the primary. */
  function connected(connection: OpenConnection): void {
    for (const old of open) if (old.isClosed()) open.delete(old)
    open.add(connection)
  }

  /** Of several hosts that take writes, the one with the latest timeline, because an old primary may have come back. */
  async function findPrimary(): Promise<Host> {
    const primaries: { host: Host; timeline: number }[] = []
    const reasons = new Map<Host, string>()
    const found = Promise.withResolvers<void>()
    const probes = hosts.map(async (host) => {
      try {
        const timeline = await askTimeline(host)
        if (timeline < last_timeline) throw new Error("an old primary, from before a failover")
        primaries.push({ host, timeline })
        found.resolve()
      } catch (error) {
        reasons.set(host, error instanceof Error ? error.message : String(error))
      }
    })
    const all = Promise.all(probes)
    await Promise.race([all, found.promise.then(() => Promise.race([all, Bun.sleep(OTHERS_MS)]))])
    const [latest] = primaries.sort((one, other) => other.timeline - one.timeline)
    if (latest !== undefined) {
      // The old primary may still run and return data that the new one does not have.
      if (latest.timeline > last_timeline)
        for (const connection of open) if (connection.host !== latest.host) connection.end()
      last_timeline = latest.timeline
      return latest.host
    }
    const why = hosts.map((each) => `${each.host}:${each.port} (${reasons.get(each) ?? "no answer"})`)
    throw new NoPrimary(`none of its hosts takes writes: ${why.join(", ")}`)
  }

  return {
    /** The URL of the first host, for the settings that all hosts share. */
    url: hosts[0]?.url ?? "",
    primary,
    connected,
    /** A connected socket to the primary. Rejects as `primary` does, or with the socket's error. */
    async dial(): Promise<Socket> {
      const host = await primary()
      const socket = new Socket()
      const connection = Promise.withResolvers<void>()
      socket.once("connect", connection.resolve)
      socket.once("error", connection.reject)
      socket.connect(host.port, host.host)
      await connection.promise
      socket.removeAllListeners()
      connected({ host, end: () => socket.destroy(), isClosed: () => socket.destroyed })
      // The driver takes the name for TLS from here.
      return Object.assign(socket, { host: host.host })
    },
  }
}

/** The timeline that a host writes. Rejects with the reason why it does not take writes. */
async function askTimeline({ url }: Host): Promise<number> {
  const client = postgres(url, {
    max: 1,
    prepare: false,
    fetch_types: false,
    connect_timeout: ASK_MS / 1_000,
    onnotice: () => {},
  })
  try {
    const [row] = await withDeadline(client.unsafe(TIMELINE), ASK_MS, () => {
      throw new Error("no answer")
    })
    if (row?.is_standby !== false) throw new Error("a standby")
    if (row.is_read_only !== false) throw new Error("read-only")
    return Number(row.timeline)
  } catch (error) {
    throw errorCode(error) === "ECONNREFUSED" ? new Error("connection refused", { cause: error }) : error
  } finally {
    void client.end({ timeout: 0 })
  }
}

const TIMELINE = `SELECT pg_is_in_recovery() AS is_standby, current_setting('transaction_read_only')::bool AS is_read_only,
  CASE WHEN NOT pg_is_in_recovery() THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END AS timeline`
