import postgres from "postgres"

/** The database's address: the URL of any server, or the socket of the embedded one. */
export type Address = { readonly url: string } | SocketAddress

/** A database behind the file of a unix socket. */
export interface SocketAddress {
  readonly socket_path: string
  readonly user: string
  readonly database: string
}

/** A pool of postgres.js connections to `address`. Nothing is opened before the first query. */
export function connect<Types extends Record<string, postgres.PostgresType> = Record<never, never>>(
  address: Address,
  options: postgres.Options<Types> = {},
) {
  if ("url" in address) return postgres(address.url, options)
  const { socket_path, user, database } = address
  // Said in full, because what is left out postgres.js takes from PG* variables.
  return postgres({ ...options, path: socket_path, user, database, password: "", ssl: false })
}
