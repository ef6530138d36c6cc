import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Variables } from "../process/gateway-process.ts"
import { databaseVariables, Workplace } from "../process/workplace.ts"
import { freshDatabase } from "../support/database.ts"
import { filesBelow } from "../support/files-below.ts"
import { freePort } from "../support/free-port.ts"
import { CHAT, chat, configFor, untilIs } from "../support/gateway.ts"
import { ADMIN_TOKEN, operatorOf } from "../support/operator.ts"
import { HELLO, startProvider } from "../support/provider.ts"

let place: Workplace
const fresh = await freshDatabase()
const provider = await startProvider()
provider.reply(HELLO)
afterAll(async () => {
  await fresh.drop()
  await provider.stop()
})
beforeEach(() => {
  place = new Workplace()
})
afterEach(() => place.clear())

describe("D39 a start that would leave a door open is refused in one sentence", () => {
  const NO_TOKEN = { TOLLGATE_ADMIN_TOKEN: "" }
  const unguarded =
    "expected a loopback address such as 127.0.0.1, or a TOLLGATE_ADMIN_TOKEN of at least 16 characters"
  const short = "TOLLGATE_ADMIN_TOKEN: expected at least 16 printable ASCII characters without spaces"
  const rows: readonly [what: string, variables: () => Variables, changes: object, complaint: string][] = [
    ["HOST for all, no token", () => ({ HOST: "0.0.0.0", ...NO_TOKEN }), {}, `HOST: ${unguarded}`],
    ["a short token, even on the loopback", () => ({ TOLLGATE_ADMIN_TOKEN: "fifteen-letters" }), {}, short],
    [
      "an operators' address that is not here",
      () => databaseVariables(fresh.address),
      { admin: { host: "192.0.2.1", port: 8098 } },
      "cannot listen on port 8098 of 192.0.2.1 (admin.host, admin.port)",
    ],
  ]
  test.each(rows)("%s", async (_, variables, changes, complaint) => {
    place.configure(configFor(provider.url, { ...changes }))
    const gateway = place.spawn({ DATABASE_URL: "postgres://127.0.0.1:1/none", ...variables() })
    expect(await gateway.exited).toBe(1)
    expect(gateway.complaint).toStartWith(`tollgate: ${complaint}`)
    expect(gateway.complaint.trimEnd().split("\n")).toHaveLength(1)
    expect(gateway.printed).not.toContain("listening")
  })
})

describe("secrets from files, and operators apart, in two workers", () => {
  /** Searched for wherever a gateway may write. */
  const PROVIDER_CANARY = "sk-canary-from-a-file"
  const PROMPT_CANARY = "canary-of-the-prompt"

  test("D39 everything works, and no secret is in what it prints or keeps", async () => {
    const secret = (name: string, text: string) => {
      const path = join(place.folder, name)
      writeFileSync(path, `${text}\n`)
      return path
    }
    const { DATABASE_URL = "", ...rest } = databaseVariables(fresh.address)
    const config = configFor(provider.url, { admin: { port: freePort() }, workers: 2 })
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the file
    const first = { family: "chat", base_url: `${provider.url}/v1`, api_key: "${PROVIDER_KEY}" }
    const counter = { ...first, family: "messages", base_url: provider.url }
    place.configure({ ...config, upstreams: { first, counter } })
    const gateway = await place.start({
      ...rest,
      DATABASE_URL_FILE: secret("url", DATABASE_URL),
      TOLLGATE_ADMIN_TOKEN: "",
      TOLLGATE_ADMIN_TOKEN_FILE: secret("token", ADMIN_TOKEN),
      PROVIDER_KEY_FILE: secret("key", PROVIDER_CANARY),
    })
    await gateway.prints("the admin listener is separate")
    const port = /"host":"127\.0\.0\.1","port":(\d+),"msg":"the admin listener is separate/.exec(
      gateway.printed,
    )?.[1]
    const adminApi = operatorOf(`http://127.0.0.1:${port}`)
    const account = await adminApi.account()
    const messages = [{ role: "user", content: PROMPT_CANARY }]
    const answer = await chat(gateway, account.key, { messages })
    expect(answer.status).toBe(200)
    expect(provider.requests.at(-1)?.headers.authorization).toBe(`Bearer ${PROVIDER_CANARY}`)
    expect((await chat(gateway, `${account.key}x`, { messages })).status).toBe(401)
    expect((await chat(gateway, account.key, { model: `${CHAT}-`, messages })).status).toBe(404)
    expect((await fetch(`${gateway.url}/admin/audit`, bearer(ADMIN_TOKEN))).status).toBe(404)
    expect((await fetch(`${gateway.url}/metrics`)).status).toBe(404)
    const metrics = await adminApi.metrics()
    expect(metrics).toContain('worker="2"')
    const audit = await untilIs(adminApi.audit, { open_holds: 0 })
    expect(audit.violations).toEqual([])

    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
    const said = [gateway.printed, gateway.complaint, metrics, ...filesBelow(place.data_dir)].join("\n")
    const secrets = [PROVIDER_CANARY, PROMPT_CANARY, ADMIN_TOKEN, account.key]
    expect(secrets.filter((text) => said.includes(text))).toEqual([])
  })
})

function bearer(token: string): RequestInit {
  return { headers: { authorization: `Bearer ${token}` } }
}
