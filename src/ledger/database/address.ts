import postgres from "postgres"
import { asksForPrimary } from "./database-url.ts"
import { type Hosts, hostsOf } from "./hosts.ts"

/** The schema of the ledger's tables, unless an address names another. */
export const USUAL_SCHEMA = "tollgate"

/** The database's address: the URL of any server, or of several, or the socket of the embedded one. */
export type Address = ({ readonly url: string } | SocketAddress) & {
  /** The schema of the ledger's tables (D74); absent for `tollgate`. */
  readonly schema?: string
  /** Settings of each session, sent when the connection is made. A pooler may refuse them. */
  readonly settings?: Readonly<Record<string, string>>
  /** True if statement names of two connections can clash, so that statements must be unnamed. */
  readonly names_clash?: boolean
}

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

/** A pool to `address`, or to the host of several that takes writes. Rejects with `NoPrimary` if there is none. */
export function connect<Types extends Record<string, postgres.PostgresType> = Record<never, never>>(
  address: Address,
  given: postgres.Options<Types> = {},
) {
  const options = { ...given, connection: { application_name: "tollgate", ...address.settings } }
  if ("url" in address) {
    if (!asksForPrimary(address.url)) return postgres(address.url, options)
    const hosts = hostsOf(address.url)
    const dialing = { ...options, socket: () => dial(hosts, options) }
    return postgres(hosts.url, dialing)
  }
  const { socket_path, user, database } = address
  // In full, because postgres.js takes missing fields from PG* variables.
  return postgres({ ...options, path: socket_path, user, database, password: "", ssl: false })
}

/** Deadline of a start for a server that accepts the connection but does not answer. */
export const FIRST_ANSWER_S = 4

/** Asks on a connection of its own, and closes it. */
export async function askAlone<Answer>(
  address: Address,
  ask: (client: postgres.Sql) => Promise<Answer>,
): Promise<Answer> {
  const client = connect(address, {
    max: 1,
    connect_timeout: FIRST_ANSWER_S,
    fetch_types: false,
    onnotice: () => {},
  })
  try {
    return await ask(client)
  } finally {
    await client.end({ timeout: 1 })
  }
}

/** Calls `onclose` itself on failure, because the driver does not for a socket that it never got. */
async function dial(hosts: Hosts, { onclose }: { readonly onclose?: (id: number) => void }) {
  try {
    return await hosts.dial()
  } catch (error) {
    if (onclose !== undefined) queueMicrotask(() => onclose(0))
    throw error
  }
}
