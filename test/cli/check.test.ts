import { afterAll, describe, expect, test } from "bun:test"
import { mkdirSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:net"
import { join } from "node:path"
import { lockFolder } from "../../src/embedded/lock.ts"
import { startScriptedIssuer } from "../oidc/scripted-issuer.ts"
import { emptyDatabase } from "../support/database.ts"
import { testFolder } from "../support/folder.ts"
import { ADMIN_TOKEN, type ConfigChanges, configFor } from "../support/gateway.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { testGateway } from "../support/test-gateway.ts"
import { type } from "./command.ts"

const SECRET = "sk-canary-of-the-check"
/** Requests for lists of models. */
const asked: string[] = []
/** Refuses a start without TLS, in Postgres' words. */
const tls_only = Bun.listen({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    data(socket) {
      const message =
        'no pg_hba.conf entry for host "127.0.0.1", user "tollgate", database "ledger", no encryption'
      const fields = Buffer.from(`SFATAL\0VFATAL\0C28000\0M${message}\0\0`)
      const head = Buffer.alloc(5)
      head.write("E")
      head.writeInt32BE(fields.length + 4, 1)
      socket.end(Buffer.concat([head, fields]))
    },
  },
})

const folder = testFolder()
const { provider, gateway } = await testGateway()
const proxy = await DatabaseProxy.start(gateway.address)
const fresh = await emptyDatabase()
const empty = await DatabaseProxy.start(fresh.address)
const upstream = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request) {
    const { method, url, headers } = request
    asked.push(`${method} ${new URL(url).pathname} ${headers.get("anthropic-version") ?? "-"}`)
    return Response.json({ data: [] })
  },
})
/** A server on a port that is not a gateway. */
const mute = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1")
await new Promise((resolve) => mute.once("listening", resolve))
afterAll(async () => {
  mute.close()
  tls_only.stop(true)
  await upstream.stop(true)
  await Promise.all([proxy.stop(), empty.stop()])
  await fresh.drop()
})

interface Finding {
  readonly what: string
  readonly ok: boolean
  readonly found: string
  readonly fix: string | null
}

const portOf = (server: Server) => {
  const address = server.address()
  return typeof address === "object" && address !== null ? address.port : 0
}

function upstreams(chat_key: string, messages_key: string) {
  const base = `http://127.0.0.1:${upstream.port}`
  return {
    first: { family: "chat", base_url: `${base}/v1`, api_key: chat_key },
    counter: { family: "messages", base_url: base, api_key: messages_key },
  }
}

/** What `check` finds; as JSON and as text it finds the same, with the same exit code. */
async function check(changes: ConfigChanges | string, variables: Record<string, string> = {}) {
  const path = join(folder, `${crypto.randomUUID()}.yaml`)
  const given = configFor(
    provider.url,
    typeof changes === "string" ? {} : { upstreams: upstreams(SECRET, SECRET), ...changes },
  )
  writeFileSync(path, typeof changes === "string" ? changes : JSON.stringify(given))
  const env = {
    TOLLGATE_CONFIG: path,
    TOLLGATE_DATA_DIR: join(folder, "data"),
    TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN,
    DATABASE_URL: proxy.address.url,
    PORT: "0",
    ...variables,
  }
  const [json, text] = await Promise.all([type(["check", "--json"], env), type(["check"], env)])
  const { ok, findings }: { ok: boolean; findings: Finding[] } = JSON.parse(json.out)
  const lines = findings.map(
    ({ what, ok, found, fix }) => `${ok ? "✓" : "✗"} ${what}: ${found}\n${fix === null ? "" : `  ${fix}\n`}`,
  )
  expect(text.out).toBe(lines.join(""))
  const wrong = findings.filter((finding) => !finding.ok).length
  const err = wrong === 0 ? "" : `tollgate: ${wrong} of ${findings.length} checks failed\n`
  const ended = { code: wrong === 0 ? 0 : 1, err }
  expect({ ok, json: { code: json.code, err: json.err }, text: { code: text.code, err: text.err } }).toEqual({
    ok: wrong === 0,
    json: ended,
    text: ended,
  })
  for (const secret of [SECRET, ADMIN_TOKEN, "s3cret"]) expect(`${json.out}${text.out}`).not.toContain(secret)
  return findings
}

const wrongOf = (findings: readonly Finding[]) =>
  findings
    .filter(({ ok }) => !ok)
    .map(({ what, found, fix }) => `${what}: ${found.replaceAll(/\/\S+\.yaml/g, "FILE")} | ${fix}`)

describe("tollgate check", () => {
  test("finds nothing wrong where nothing is, and asks each upstream for its models alone", async () => {
    asked.length = 0
    const findings = await check({})
    expect(
      findings.map(({ what, ok, found }) => `${ok} ${what}: ${found.replace(/^.*\.yaml/, "FILE")}`),
    ).toEqual([
      "true environment: all variables are valid",
      "true configuration: FILE: 2 models, 2 upstreams",
      "true operators: /admin shares the port of the clients",
      "true database: reachable, and its tables match this version",
      "true upstream first: reachable, and lists its models, but the list may be public; --call tests the key; no provider of docs/providers.md has this address",
      "true upstream counter: reachable, and lists its models, but the list may be public; --call tests the key; no provider of docs/providers.md has this address",
      "true port 0: the gateway picks a free port",
    ])
    expect(new Set(asked)).toEqual(new Set(["GET /v1/models -", "GET /v1/models 2023-06-01"]))
  })

  // Longer than a label of a host name may be, so that no name server is asked.
  const NO_NAME = "n".repeat(64)
  const CORRECT = "Correct the file. docs/configuration.md describes every key."
  const shards = [{ name: "eu", url: "postgres://tollgate:s3cret@127.0.0.1:1/ledger" }]
  const first = (upstream: object) => ({
    upstreams: { ...upstreams(SECRET, SECRET), first: { family: "chat", ...upstream } },
  })
  const at = (variables: () => Record<string, string>) => ({ variables })
  const to = (changes: () => ConfigChanges | string) => ({ changes })
  interface Given {
    readonly changes?: () => ConfigChanges | string
    readonly variables?: () => Record<string, string>
  }
  const rows: readonly (readonly [what: string, given: Given, ...wrong: (string | RegExp)[]])[] = [
    [
      "variables, each with its own line",
      at(() => ({ PORT: "http", LOG_LEVEL: "loud" })),
      "environment: PORT: expected an integer from 0 to 65535 | Correct the variable, or unset it.",
      /^environment: LOG_LEVEL: expected one of trace, /,
    ],
    [
      "a file that is not there",
      at(() => ({ TOLLGATE_CONFIG: "/nowhere.yaml" })),
      /^configuration: cannot read the configuration file FILE: no such file or directory \|/,
    ],
    ["a file that is no YAML", to(() => "models: ["), /^configuration: FILE: line 1: expected valid YAML /],
    [
      "each key that is wrong",
      to(() => ({ limits: { in_flight: "many" }, workers: 0 })),
      `configuration: FILE: limits.in_flight: expected an integer from 1 to 60000 | ${CORRECT}`,
      /^configuration: FILE: workers: expected /,
    ],
    [
      "a variable that the file names",
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the file
      to(() => ({ upstreams: upstreams("${NOT_SET}", SECRET) })),
      `configuration: FILE: upstreams.first.api_key: expected the environment variable NOT_SET to be set and not empty | ${CORRECT}`,
    ],
    [
      "D39 a door that is open",
      at(() => ({ HOST: "0.0.0.0", TOLLGATE_ADMIN_TOKEN: "" })),
      /^operators: HOST: expected a loopback address .* \| Set TOLLGATE_ADMIN_TOKEN, or change the address\.$/,
    ],
    [
      "a database that is not there",
      at(() => ({ DATABASE_URL: "postgres://tollgate:s3cret@127.0.0.1:1/ledger" })),
      "database: connect ECONNREFUSED 127.0.0.1:1 | Start Postgres there, or correct DATABASE_URL.",
    ],
    [
      "a database of another name",
      at(() => ({ DATABASE_URL: proxy.address.url.replace(/[^/]+$/, "nowhere") })),
      'database: database "nowhere" does not exist | Create the database (createdb), or correct its name in DATABASE_URL.',
    ],
    [
      "a database that takes only connections with TLS",
      at(() => ({ DATABASE_URL: `postgres://tollgate:s3cret@127.0.0.1:${tls_only.port}/ledger` })),
      'database: no pg_hba.conf entry for host "127.0.0.1", user "tollgate", database "ledger", no encryption | Add sslmode=verify-full to DATABASE_URL.',
    ],
    [
      "a database in which the role cannot write",
      at(() => ({ DATABASE_URL: `${empty.address.url}?default_transaction_read_only=on` })),
      "database: it is read-only for the role tollgate | Allow writes: ALTER ROLE tollgate RESET default_transaction_read_only.",
    ],
    [
      "shards that are not there (D74)",
      { ...at(() => ({ DATABASE_URL: "" })), ...to(() => ({ shards })) },
      "shard eu: connect ECONNREFUSED 127.0.0.1:1 | Start Postgres there, or correct the url of the shard.",
    ],
    [
      "shards beside DATABASE_URL (D74)",
      to(() => ({ shards })),
      `database: shards: expected no such key while DATABASE_URL is set: list that database as a shard, and unset DATABASE_URL | ${CORRECT}`,
    ],
    [
      "an upstream that is not there",
      to(() => first({ base_url: "http://127.0.0.1:1/v1" })),
      /^upstream first: not reachable \(\w+\); no provider of docs\/providers\.md has this address \| Correct upstreams\.first\.base_url, or check the network and the firewall\.$/,
    ],
    [
      "an upstream whose name is unknown",
      to(() => first({ base_url: `http://${NO_NAME}/v1` })),
      `upstream first: the host name ${NO_NAME} is unknown (ENOTFOUND); no provider of docs/providers.md has this address | Correct upstreams.first.base_url, or check the network and the firewall.`,
    ],
    [
      "a proxy that is not there (D59)",
      to(() => first({ base_url: "http://provider.test/v1", proxy: "http://u:s3cret@127.0.0.1:1" })),
      /^upstream first: not reachable \(\w+\); no provider of docs\/providers\.md has this address \| Correct the proxy \(upstreams\.first\.proxy, proxy or HTTPS_PROXY\) or upstreams\.first\.base_url\.$/,
    ],
    [
      "a port that somebody else has",
      at(() => ({ PORT: String(portOf(mute)) })),
      /^port \d+: another program listens on 127\.0\.0\.1:\d+ \| Stop that program, or set PORT to another port\.$/,
    ],
    [
      "an address of another machine",
      at(() => ({ HOST: "192.0.2.1", PORT: "8099" })),
      /^port 8099: cannot listen on 192\.0\.2\.1: .* \| Set HOST to an address of this machine/,
    ],
    [
      "an address whose name is unknown",
      at(() => ({ HOST: NO_NAME, PORT: "8099" })),
      /^port 8099: cannot listen on n{64}: the host name is unknown \| Set HOST to an address of this machine/,
    ],
    [
      "a port that a gateway with another data directory has",
      at(() => ({ PORT: String(gateway.service.server.port) })),
      /^port \d+: a gateway with another data directory listens on 127\.0\.0\.1:\d+ \| Stop that gateway, or set PORT to another port\.$/,
    ],
    [
      "the operators' port that somebody else has",
      to(() => ({ admin: { port: portOf(mute) } })),
      /^port \d+: another program listens on .* \| Stop that program, or set admin\.port to another port\.$/,
    ],
  ]
  test.each(rows)("says what is wrong and how to fix it: %s", async (_what, given, ...wrong) => {
    const { changes = () => ({}), variables = () => ({}) } = given
    const found = wrongOf(await check(changes(), variables()))
    expect(found).toHaveLength(wrong.length)
    wrong.forEach((expected, at) => {
      if (typeof expected === "string") expect(found[at]).toBe(expected)
      else expect(found[at]).toMatch(expected)
    })
  })

  test("a gateway that has the port already is as it should be", async () => {
    const data_dir = join(folder, "its-data")
    mkdirSync(data_dir)
    const unlock = lockFolder(data_dir)
    const findings = await check(
      {},
      { PORT: String(gateway.service.server.port), TOLLGATE_DATA_DIR: data_dir },
    )
    unlock()
    expect(findings.at(-1)).toMatchObject({ ok: true, found: "in use by a running gateway" })
  })

  test("a database without tables will get them, and `check` makes none", async () => {
    for (const _ of [1, 2]) {
      const findings = await check({}, { DATABASE_URL: empty.address.url })
      expect(findings.find(({ what }) => what === "database")).toMatchObject({
        ok: true,
        found: "reachable; the next start creates its tables",
      })
    }
  })

  test("without a database of one's own the embedded one, which is not started", async () => {
    const findings = await check({}, { DATABASE_URL: "" })
    expect(findings.find(({ what }) => what === "database")?.found).toStartWith("embedded, in ")
  })
})

describe("tollgate check, with admin.oidc (D103)", () => {
  const signIn = async (issuer: string, variables = {}) => {
    const oidc = { issuer, client_id: "tollgate", client_secret: "s3cret", roles: { staff: "read" } }
    const findings = await check(
      { admin: { oidc: { ...oidc, public_url: "https://tollgate.example.com" } } },
      variables,
    )
    return findings.find(({ what }) => what === "sign-in")
  }

  test("says whether the issuer is discovered, and what to register there", async () => {
    const issuer = await startScriptedIssuer("tollgate")
    expect(await signIn(issuer.issuer)).toMatchObject({
      ok: true,
      found: `${new URL(issuer.issuer).host} was discovered; its redirect URI here is https://tollgate.example.com/admin/oidc/callback`,
    })
    expect(await signIn(issuer.issuer, { TOLLGATE_ADMIN_TOKEN: "" })).toMatchObject({
      ok: false,
      fix: "Set TOLLGATE_ADMIN_TOKEN.",
    })
    await issuer.stop()
    expect(await signIn(issuer.issuer)).toMatchObject({
      ok: false,
      found: expect.stringMatching(/^http:\S+: .*Unable to connect/),
      fix: "Correct admin.oidc.issuer, or check the network.",
    })
  })
})
