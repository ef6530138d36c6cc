import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { startExternal } from "./external.ts"

/** How to run a reverse proxy on the block of docs/deploying.md that is for it. */
export interface Kind {
  readonly program: string
  /** Of the block. */
  readonly language: string
  /** The whole configuration for a block, without TLS, on `port` and in front of `gateway`. */
  config(block: string, places: { port: number; gateway: string; folder: string }): string
  args(config_path: string): readonly string[]
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
  args: (path) => ["-e", "stderr", "-c", path, "-g", "daemon off;"],
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

/** `gateway` is its host and port. */
export async function startReverseProxy(kind: Kind, block: string, gateway: string, port: number) {
  const program = await startExternal(kind.program, port, (folder) => {
    const config_path = join(folder, "config")
    writeFileSync(config_path, kind.config(block, { port, gateway, folder }))
    const env = { PATH: "/usr/bin:/bin", HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
    return { args: kind.args(config_path), env }
  })
  return { ...program, url: `http://127.0.0.1:${port}` }
}
