import { Socket } from "node:net"
import postgres from "postgres"
import { asksForPrimary } from "./database-url.ts"
import { Hosts, openSocket } from "./hosts.ts"

/** The schema of the ledger's tables, unless an address names another. */
export const USUAL_SCHEMA = "tollgate"

/** The database's address: the URL of any server, or of several, or the socket of the embedded one. */
export type Address = ({ readonly url: string } | SocketAddress) & {
  /** The schema of the ledger's tables (D74); absent for `tollgate`. */
  readonly schema?: string
  /** Settings of each session, sent when the connection is made. A pooler may refuse them. */
  readonly settings?: Readonly<Record<string, string>>
  /** True if the server may not know a statement's name again, so that statements must be unnamed. */
  readonly forgets_plans?: boolean
}

/** A database behind the file of a unix socket. */
export interface SocketAddress {
  readonly socket_path: string
  readonly user: string
  readonly database: string
}

/** The schema's name in SQL texts: quoted by drizzle, or bare before a dot. */
const WRITTEN = /"tollgate"|\btollgate(?=\.)/g

/** Rewrites SQL for the address' schema; every text is written for `tollgate` (D74). */
export function inSchema(text: string, { schema = USUAL_SCHEMA }: Address): string {
  return schema === USUAL_SCHEMA ? text : text.replace(WRITTEN, `"${schema}"`)
}

export interface ConnectOptions<Types extends Record<string, postgres.PostgresType>>
  extends postgres.Options<Types> {
  /** Makes the socket of a connection, not yet connected. */
  readonly newSocket?: () => Socket
}

/**
 * A pool of connections to `address`, opened at the first query. With several hosts, each connection goes to the one that takes
 * writes, and rejects with `NoPrimary` if there is none, because the driver would retry without a pause.
 */
export function connect<Types extends Record<string, postgres.PostgresType> = Record<never, never>>(
  address: Address,
  { newSocket, ...given }: ConnectOptions<Types> = {},
) {
  const hosts = "url" in address && asksForPrimary(address.url) ? Hosts.of(address.url) : null
  const options = { ...given, connection: { application_name: "tollgate", ...address.settings } }
  const dialing =
    newSocket === undefined && hosts === null
      ? options
      : { ...options, socket: (to: Parsed) => dial(newSocket?.() ?? new Socket(), to, hosts, options) }
  if ("url" in address) return postgres(hosts?.url ?? address.url, dialing)
  const { socket_path, user, database } = address
  // In full, because postgres.js takes missing fields from PG* variables.
  return postgres({ ...dialing, path: socket_path, user, database, password: "", ssl: false })
}

/** An address as the driver has read it. */
interface Parsed {
  readonly path: string | false
  readonly host: readonly string[]
  readonly port: readonly number[]
}

/** Calls `onclose` itself on failure, because the driver does not for a socket that it never got. */
async function dial(
  socket: Socket,
  { path, host: [host = ""], port: [port = 0] }: Parsed,
  hosts: Hosts | null,
  { onclose }: { readonly onclose?: (id: number) => void },
): Promise<Socket> {
  try {
    await (hosts === null ? openSocket(socket, path ? { path } : { host, port }) : hosts.dial(socket))
    return socket
  } catch (error) {
    if (onclose !== undefined) queueMicrotask(() => onclose(0))
    throw error
  }
}
