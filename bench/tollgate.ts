import { chmodSync, closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Static, Type } from "@sinclair/typebox"
import type { Subprocess } from "bun"
import { postgresPids } from "./process-status.ts"

export const StartTollgate = Type.Object({
  /** A configuration file's content. */
  config: Type.String(),
  admin_token: Type.String(),
})
export type StartTollgate = Static<typeof StartTollgate>

export const Listening = Type.Object({
  port: Type.Integer(),
  pid: Type.Integer(),
  postgres_pids: Type.Array(Type.Integer()),
})
export type Listening = Static<typeof Listening>

const MAIN = join(import.meta.dir, "../src/main.ts")
const READY_MS = 60_000
const STOP_MS = 20_000
const POLL_MS = 20

/**
 * Runs a real gateway: `src/main.ts` with the embedded Postgres in a temporary folder, which also has the log. The
 * data outlive a restart, and are removed at the end.
 */
export class TollgateProcess {
  readonly #folder = mkdtempSync(join(tmpdir(), "tollgate-bench-"))
  #gateway: Subprocess | null = null

  /** Starts it; stops one that runs. */
  async start({ config, admin_token }: StartTollgate): Promise<Listening> {
    await this.stop()
    // As root, Postgres' user must be able to enter it.
    chmodSync(this.#folder, 0o755)
    const config_path = join(this.#folder, "tollgate.yaml")
    const log_path = join(this.#folder, "log")
    writeFileSync(config_path, config)
    const log = openSync(log_path, "w")
    const gateway = Bun.spawn([process.execPath, MAIN], {
      env: {
        PATH: process.env.PATH,
        PORT: "0",
        TOLLGATE_CONFIG: config_path,
        TOLLGATE_DATA_DIR: join(this.#folder, "data"),
        TOLLGATE_ADMIN_TOKEN: admin_token,
      },
      cwd: this.#folder,
      stdio: ["ignore", log, log],
    })
    closeSync(log)
    this.#gateway = gateway
    const until = performance.now() + READY_MS
    while (gateway.exitCode === null && performance.now() < until) {
      const port = /^tollgate listening on \S+:(\d+) \(pid \d+\)$/m.exec(readFileSync(log_path, "utf8"))?.[1]
      if (port !== undefined) {
        return { port: Number(port), pid: gateway.pid, postgres_pids: postgresPids(this.#folder) }
      }
      await Bun.sleep(POLL_MS)
    }
    throw new Error(`the gateway did not start: ${readFileSync(log_path, "utf8").slice(-1000)}`)
  }

  /** Stops it with SIGTERM, as an operator would; Postgres ends with it. */
  async stop(): Promise<void> {
    const gateway = this.#gateway
    this.#gateway = null
    if (gateway === null || gateway.exitCode !== null) return
    gateway.kill("SIGTERM")
    const timer = setTimeout(() => gateway.kill("SIGKILL"), STOP_MS)
    await gateway.exited
    clearTimeout(timer)
  }

  async end(): Promise<void> {
    await this.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
