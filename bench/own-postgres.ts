import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Embedded, startEmbedded } from "../src/embedded/embedded.ts"
import type { Address } from "../src/ledger/database/address.ts"

/** Says only what goes wrong. */
export const quietLog = { info() {}, warn: console.error, error: console.error }

/** An embedded Postgres with the gateway's settings, in a temporary folder that goes with it. */
export class OwnPostgres {
  readonly folder = mkdtempSync(join(tmpdir(), "tollgate-bench-"))
  #starting: Promise<Embedded> | null = null
  #embedded: Embedded | null = null

  async start(): Promise<void> {
    // As root, Postgres' user must be able to enter it.
    chmodSync(this.folder, 0o755)
    this.#starting = startEmbedded({ data_dir: this.folder, log: quietLog })
    this.#embedded = await this.#starting
  }

  /** Also while it starts: then as soon as it has. */
  async stop(): Promise<void> {
    const embedded = await this.#starting?.catch(() => null)
    await embedded?.stop()
    rmSync(this.folder, { recursive: true, force: true })
  }

  get address(): Address {
    if (this.#embedded === null) throw new Error("Postgres was not started")
    return this.#embedded.address
  }
}
