import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js"
import type { Sql } from "postgres"
import { type Address, connect, inSchema } from "./address.ts"
import type { Db } from "./statement.ts"

/** Deadline of statements on the other connections of a replaced pool. */
const LAST_S = 2

/**
 * Connections for occasional queries. When one is lost all are replaced: the driver loses later statements. One that has had no statement for
 * `idle_timeout` seconds is closed.
 */
export function openPool(
  address: Address,
  options: { readonly max: number; readonly idle_timeout?: number },
) {
  let client = open()
  let current = bind()
  let is_ended = false

  function giveUp(lost: Sql): void {
    if (is_ended || lost !== client) return
    client = open()
    current = bind()
    void lost.end({ timeout: LAST_S })
  }

  function bind(): PostgresJsDatabase {
    return drizzle(address.schema === undefined ? client : forSchema(client, address))
  }

  /** Connects at the first statement. No backoff, because a statement waits for the connection. */
  function open(): Sql {
    const made: Sql = connect(address, {
      ...options,
      max_lifetime: 0,
      backoff: () => 0,
      onnotice: () => {},
      onclose: () => giveUp(made),
    })
    return made
  }

  /** Sends every statement to the pool's current connections. */
  const database: Db = new Proxy(current, {
    get: (_, name) => {
      const value: unknown = Reflect.get(current, name)
      return typeof value === "function" ? value.bind(current) : value
    },
  })
  return {
    database,
    async end(): Promise<void> {
      is_ended = true
      await client.end({ timeout: 1 })
    },
  }
}

/** A client, or the client of a transaction, whose texts are those of the address' schema. */
function forSchema<Client extends object>(client: Client, address: Address): Client {
  return new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== "function") return value
      if (name === "unsafe") {
        return (text: string, ...rest: unknown[]): unknown =>
          Reflect.apply(value, target, [inSchema(text, address), ...rest])
      }
      if (name === "begin" || name === "savepoint") {
        return (run: (inner: object) => unknown): unknown =>
          Reflect.apply(value, target, [(inner: object) => run(forSchema(inner, address))])
      }
      return value.bind(target)
    },
  })
}
