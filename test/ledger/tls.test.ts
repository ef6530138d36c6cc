import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, chownSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { openCluster, USER } from "../../src/embedded/cluster.ts"
import { findPlace } from "../../src/embedded/place.ts"
import { findPrograms } from "../../src/embedded/programs.ts"
import { connect } from "../../src/ledger/database/address.ts"
import { Shell } from "../cli/command.ts"
import { Workplace } from "../process/workplace.ts"
import { freePort } from "../support/free-port.ts"
import { chat, configFor, untilIs } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { HELLO, type Provider, startProvider } from "../support/provider.ts"
import { textOf } from "../support/repository.ts"
import { certificates } from "../upstream/certificates.ts"

/** TLS to a real Postgres: both drivers do what docs/deploying.md says of each `sslmode`. */

const CLIENT = join(import.meta.dir, "tls-client.ts")
const UNKNOWN = "unable to verify the first certificate"
const OTHER_NAME = "Hostname/IP does not match certificate's altnames"

const place = new Workplace()
const shell = new Shell()
const right = join(place.folder, "ca.pem")
const wrong = join(place.folder, "other-ca.pem")
let server: ChildProcess
let provider: Provider
let port: number
const urlOf = (mode: string, host = "localhost") =>
  `postgres://${USER}@${host}:${port}/postgres${mode === "missing" ? "" : `?sslmode=${mode}`}`

beforeAll(async () => {
  provider = await startProvider()
  provider.reply(HELLO)
  const [own, other] = await Promise.all([certificates(), certificates()])
  writeFileSync(right, own.ca.cert)
  writeFileSync(wrong, other.ca.cert)
  port = freePort()
  const folder = join(place.folder, "server")
  mkdirSync(folder)
  const where = findPlace(folder)
  const cluster = await openCluster(where, false)
  const file = (name: string, text: string) => {
    const path = join(cluster.folder, name)
    writeFileSync(path, text)
    chmodSync(path, 0o600)
    if (where.runner !== undefined) chownSync(path, where.runner.uid, where.runner.gid)
    return path
  }
  const settings = [
    "listen_addresses=127.0.0.1,127.0.0.2",
    `port=${port}`,
    "unix_socket_directories=",
    "ssl=on",
    `ssl_cert_file=${file("server.pem", own.server.cert)}`,
    `ssl_key_file=${file("server.key", own.server.key)}`,
    `hba_file=${file("hba", `hostssl all ${USER} 127.0.0.0/8 trust\n`)}`,
    "fsync=off",
  ]
  const { postgres, env } = findPrograms(where)
  const args = ["-D", cluster.folder, ...settings.flatMap((setting) => ["-c", setting])]
  server = spawn(postgres, args, { ...where.runner, cwd: "/", env, stdio: "ignore" })
  const client = connect({ url: urlOf("require") }, { max: 1, backoff: () => 0 })
  const answers = () =>
    client`SELECT 1`.then(
      () => true,
      () => false,
    )
  await untilIs(answers, true)
  await client.end()
})
afterAll(async () => {
  await place.killGateways()
  const ended = once(server, "exit")
  server.kill("SIGQUIT")
  await ended
  await place.clear(provider)
})

/** What both drivers say of each URL, with an authority of one's own: whether it is encrypted, or why not connected. */
function connected(authority: string, ...urls: readonly string[]): unknown[][] {
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: authority }
  return JSON.parse(execFileSync(process.execPath, [CLIENT, ...urls], { env, encoding: "utf8" }))
}

/** The table of docs/deploying.md: mode, whether it is encrypted, what of the server is checked. */
const rows = [
  ...textOf("docs/deploying.md").matchAll(/^\| ((?:missing|`[a-z-]+`).*?) \| (no|yes|if.*?) \| (.*?) \|$/gm),
]
const modes = rows.flatMap(([, names = "", encrypted = "", checked = ""]) =>
  names.split(", ").map((name) => ({ mode: name.replaceAll("`", ""), encrypted, checked })),
)

describe("TLS to a Postgres that takes nothing else", () => {
  const UNENCRYPTED = `no pg_hba.conf entry for host "127.0.0.1", user "${USER}", database "postgres", no encryption`

  test("both drivers do what docs/deploying.md says of each sslmode", () => {
    expect(modes.map(({ mode }) => mode).sort()).toEqual(
      ["allow", "disable", "missing", "prefer", "require", "verify-ca", "verify-full"].sort(),
    )
    const urls = modes.map(({ mode }) => urlOf(mode))
    const known = modes.map(({ encrypted }) => (encrypted === "no" ? UNENCRYPTED : true))
    expect(connected(right, ...urls)).toEqual(known.map((result) => [result, result]))
    const unknown = modes.map(({ checked }, at) => (checked === "no" ? known[at] : UNKNOWN))
    expect(connected(wrong, ...urls)).toEqual(unknown.map((result) => [result, result]))
    const checking = modes.filter(({ checked }) => checked === "certificate and name")
    const elsewhere = connected(right, ...checking.map(({ mode }) => urlOf(mode, "127.0.0.2")))
    expect(elsewhere.length).toBeGreaterThan(0)
    for (const said of elsewhere.flat()) expect(said).toStartWith(OTHER_NAME)
  })

  test("a gateway serves and charges a call over encrypted connections alone", async () => {
    place.configure(configFor(provider.url))
    const gateway = await place.start({ DATABASE_URL: urlOf("verify-full"), NODE_EXTRA_CA_CERTS: right })
    const operator = operatorOf(gateway.url)
    const { id, key } = await operator.account("1")
    expect((await chat(gateway, key)).status).toBe(200)
    await untilIs(async () => (await operator.calls(`?account=${id}`)).map(({ state }) => state), ["settled"])
    const client = connect({ url: urlOf("require") }, { max: 1 })
    const lines = await client`SELECT ssl, application_name FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
      WHERE client_addr IS NOT NULL AND pid <> pg_backend_pid()`
    await client.end()
    expect(lines.length).toBeGreaterThan(1)
    expect(lines.filter(({ ssl }) => ssl !== true)).toEqual([])
  })

  test("check says which setting helps against a certificate of another authority or name", async () => {
    const check = async (host: string, authority: string) => {
      const variables = { DATABASE_URL: urlOf("verify-full", host), NODE_EXTRA_CA_CERTS: authority }
      const { out } = await shell.run("tollgate check", { TOLLGATE_DATA_DIR: place.data_dir, ...variables })
      return /^✗ database: (.*)\n {2}(.*)$/m.exec(out)?.slice(1)
    }
    const found = await Promise.all([check("localhost", wrong), check("127.0.0.2", right)])
    expect(found).toEqual([
      [UNKNOWN, "Name the file of the server's authority in NODE_EXTRA_CA_CERTS."],
      [expect.stringContaining(OTHER_NAME), "Use a name of the server's certificate in DATABASE_URL."],
    ])
  })
})
