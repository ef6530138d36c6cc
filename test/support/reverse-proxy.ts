import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { listens } from "./free-port.ts"

/** How to run a reverse proxy on the block of docs/deploying.md that is for it. */
export interface Kind {
  readonly program: string
  /** Of the block. */
  readonly language: string
  /** The whole configuration for a block, without TLS, on `port` and in front of `gateway`. */
  config(block: string, places: { port: number; gateway: string; folder: string }): string
  args(config_path: string, folder: string): readonly string[]
}

const nginx: Kind = {
  program: "/usr/sbin/nginx",
  language: "nginx",
  config(block, { port, gateway, folder }) {
    const site = block
      .replace("listen 443 ssl;", `listen 127.0.0.1:${port};`)
      .replace(/^ *ssl_.*\n/gm, "")
      .replace("127.0.0.1:8080", gateway)
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (name) => `${name}_temp_path ${join(folder, name)};`,
    )
    const user = process.getuid?.() === 0 ? "user root;" : ""
    return `${user} pid ${join(folder, "pid")}; events { worker_connections 1024; } http { access_log off; ${temporary.join(" ")}\n${site}}\n`
  },
  args: (path, folder) => ["-e", join(folder, "log"), "-c", path, "-g", "daemon off;"],
}

const caddy: Kind = {
  program: "/usr/bin/caddy",
  language: "caddyfile",
  config(block, { port, gateway }) {
    const site = block
      .replace("llm.example.com {", `http://gateway.test:${port} {\n bind 127.0.0.1`)
      .replace("127.0.0.1:8080", gateway)
    return `{\n admin off\n auto_https off\n}\n${site}`
  },
  args: (path) => ["run", "--config", path, "--adapter", "caddyfile"],
}

export const kinds: readonly (readonly [name: string, kind: Kind])[] = [
  ["nginx", nginx],
  ["Caddy", caddy],
]

/** Whether the program is missing; then it says in the test's output what is not shown. */
export function proxyless({ program }: Kind, what_is_not_shown: string): boolean {
  const is_absent = !existsSync(program)
  if (is_absent) console.warn(`SKIPPED: no ${program}, so nothing shows that ${what_is_not_shown}`)
  return is_absent
}

export class ReverseProxy {
  readonly url: string
  readonly #child: ChildProcess
  readonly #folder: string

  private constructor(url: string, child: ChildProcess, folder: string) {
    this.url = url
    this.#child = child
    this.#folder = folder
  }

  /** `gateway` is its host and port. */
  static async start(kind: Kind, block: string, gateway: string, port: number): Promise<ReverseProxy> {
    const folder = mkdtempSync(join(tmpdir(), "tollgate-proxy-"))
    const config_path = join(folder, "config")
    writeFileSync(config_path, kind.config(block, { port, gateway, folder }))
    const env = { PATH: "/usr/bin:/bin", HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
    const child = spawn(kind.program, kind.args(config_path, folder), {
      env,
      stdio: ["ignore", "ignore", "pipe"],
    })
    let complaint = ""
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      complaint += text
    })
    while (!(await listens(port))) {
      if (child.exitCode !== null) {
        const log = existsSync(join(folder, "log")) ? readFileSync(join(folder, "log"), "utf8") : ""
        throw new Error(`${kind.program} did not start: ${complaint}${log}`)
      }
      await Bun.sleep(5)
    }
    return new ReverseProxy(`http://127.0.0.1:${port}`, child, folder)
  }

  async stop(): Promise<void> {
    const exited = once(this.#child, "exit")
    this.#child.kill("SIGTERM")
    await exited
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
