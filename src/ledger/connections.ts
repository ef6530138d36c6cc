import type { Connection, Watch } from "./connection.ts"
import type { Database } from "./database.ts"

/** The connections of one process' books, each for one that sends one statement at a time. */
export class Connections {
  readonly #database: Database
  readonly #watch: Watch
  readonly #made: Connection[] = []

  constructor(database: Database, watch: Watch) {
    this.#database = database
    this.#watch = watch
  }

  one(): Connection {
    const connection = this.#database.connection(this.#watch)
    this.#made.push(connection)
    return connection
  }

  several(count: number): Connection[] {
    return Array.from({ length: count }, () => this.one())
  }

  async end(): Promise<void> {
    await Promise.all(this.#made.map((connection) => connection.end()))
  }
}
