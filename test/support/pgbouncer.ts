import { chmodSync, chownSync, statSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import type { SocketAddress } from "../../src/ledger/database/address.ts"
import { startExternal } from "./external.ts"
import { freePort } from "./free-port.ts"

export const PGBOUNCER = "/usr/sbin/pgbouncer"

/** Debian's PgBouncer in transaction mode in front of a Postgres, to which it makes `pool_size` connections at most. */
export async function startPgBouncer(target: SocketAddress, pool_size: number) {
  const { user, database, socket_path } = target
  const port = freePort()
  const program = await startExternal(PGBOUNCER, port, (folder) => {
    chmodSync(folder, 0o755)
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
    // SIGTERM waits for the clients.
    return { args: ["--quiet", join(folder, "ini")], killSignal: "SIGKILL", ...runner }
  })
  return { ...program, url: `postgres://${user}@127.0.0.1:${port}/${database}` }
}
