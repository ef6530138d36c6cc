import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import type { SocketAddress } from "../../src/ledger/database/address.ts"
import { freePort, listens } from "./free-port.ts"

const PROGRAM = "/usr/sbin/pgbouncer"

/** Whether there is no PgBouncer; then it says in the test's output what is not shown. */
export function poolerless(what_is_not_shown: string): boolean {
  const is_absent = !existsSync(PROGRAM)
  if (is_absent) console.warn(`SKIPPED: no ${PROGRAM}, so nothing shows that ${what_is_not_shown}`)
  return is_absent
}

/** Debian's PgBouncer in transaction mode in front of a Postgres. */
export class PgBouncer {
  readonly #child: ChildProcess
  readonly #folder: string
  readonly url: string

  private constructor(child: ChildProcess, folder: string, url: string) {
    this.#child = child
    this.#folder = folder
    this.url = url
  }

  /** `pool_size`: how many connections to the server it makes at most. */
  static async start(target: SocketAddress, pool_size: number): Promise<PgBouncer> {
    const folder = mkdtempSync(join(tmpdir(), "tollgate-pgbouncer-"))
    chmodSync(folder, 0o755)
    const port = await freePort()
    const { user, database, socket_path } = target
    writeFileSync(join(folder, "users"), `"${user}" ""\n`)
    const settings = {
      listen_addr: "127.0.0.1",
      listen_port: port,
      unix_socket_dir: "",
      auth_type: "trust",
      auth_file: join(folder, "users"),
      pool_mode: "transaction",
      default_pool_size: pool_size,
      max_client_conn: 1_000,
      server_login_retry: 1,
    }
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`)
    const target_line = `* = host=${dirname(socket_path)} port=5432`
    writeFileSync(join(folder, "ini"), ["[databases]", target_line, "[pgbouncer]", ...lines, ""].join("\n"))
    // It refuses to run as root, and only the server's user may open the socket.
    const { uid, gid } = statSync(dirname(socket_path))
    const runner = process.getuid?.() === 0 ? { uid, gid } : undefined
    if (runner !== undefined) chownSync(folder, uid, gid)
    const child = spawn(PROGRAM, ["--quiet", join(folder, "ini")], { ...runner, stdio: "ignore" })
    const pgbouncer = new PgBouncer(child, folder, `postgres://${user}@127.0.0.1:${port}/${database}`)
    while (!(await listens(port))) {
      if (child.exitCode !== null) throw new Error("PgBouncer did not start")
      await Bun.sleep(5)
    }
    return pgbouncer
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error("PgBouncer was not spawned")
    return this.#child.pid
  }

  async stop(): Promise<void> {
    const exited = once(this.#child, "exit")
    this.#child.kill("SIGKILL")
    await exited
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
