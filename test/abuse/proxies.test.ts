import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { blocksUnder } from "../docs/blocks.ts"
import { chatDraft } from "../http/harness.ts"
import { isMissing } from "../support/external.ts"
import { freePort } from "../support/free-port.ts"
import { ADMIN_TOKEN, startGateway, type TestGateway, until } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import {
  chatChunk,
  HELLO,
  heldBack,
  type Provider,
  silent,
  sseEvent,
  startProvider,
} from "../support/provider.ts"
import { dial } from "../support/raw-client.ts"
import { chatRequest, requestBytes } from "../support/request.ts"
import { kinds, startReverseProxy } from "../support/reverse-proxy.ts"

/** What docs/deploying.md shows for reverse proxies, in front of a whole gateway. */

/** Ways to spell the operators' paths. */
const SPELLINGS = [
  "/metrics",
  "/admin/accounts",
  "/admin/audit",
  "/console",
  "//metrics",
  "/./metrics",
  "/v1/../metrics",
  "/v1/%2e%2e/metrics",
  "/v1\\..\\metrics",
  "/v1/..%5cmetrics",
  "/v1/..%2fmetrics",
  "/%6detrics",
  "/metrics/",
  "/metrics%00",
  "/METRICS",
  "/metrics;x",
  "/v1\\..\\admin/accounts",
  "/v1\\..\\admin\\accounts",
  "/admin/../v1\\..\\admin/accounts",
  "http://gateway.test/metrics",
  "http://gateway.test/v1\\..\\admin/audit",
]

const [documented] = blocksUnder("docs/deploying.md", "Reverse proxies", "yaml")

describe.each(kinds)("the documented %s", (name, kind) => {
  const is_absent = isMissing(kind.program, `${name} works in front of the gateway as docs/deploying.md says`)
  const shown = test.skipIf(is_absent)
  let provider: Provider
  let gateway: TestGateway
  let operators: ReturnType<typeof operatorOf>
  let proxy: Awaited<ReturnType<typeof startReverseProxy>>
  beforeAll(async () => {
    if (is_absent) return
    provider = await startProvider()
    provider.reply(HELLO)
    gateway = await startGateway(provider, { admin: { port: 0 } })
    operators = operatorOf(`http://127.0.0.1:${gateway.service.admin_server?.port}`)
    const [block] = blocksUnder("docs/deploying.md", "Reverse proxies", kind.language)
    proxy = await startReverseProxy(kind, block?.text ?? "none", new URL(gateway.url).host, freePort())
  })
  afterAll(async () => {
    if (is_absent) return
    const { violations, open_holds } = await operators.audit()
    await proxy.stop()
    await gateway.stop()
    await provider.stop()
    expect({ violations, open_holds }).toEqual({ violations: [], open_holds: 0 })
  })

  async function ask(bytes: string | Uint8Array) {
    const client = dial(proxy)
    client.send(bytes)
    const answer = await client.answer()
    client.leave()
    return answer
  }

  shown("D39 no spelling of a path leads to what is for operators", async () => {
    expect(documented?.text).toContain("admin:")
    const headers = [`authorization: Bearer ${ADMIN_TOKEN}`]
    for (const target of SPELLINGS) {
      const { status, body } = await ask(requestBytes({ target, headers }))
      expect({ target, status, body }).toEqual({
        target,
        status: status === 400 ? 400 : 404,
        body: expect.not.stringMatching(/tollgate_|"data"|violations|<script/),
      })
    }
  })

  shown("passes a stream's events on as they come, and closes when the client leaves", async () => {
    const { id, key } = await operators.account()
    provider.replyOnce(silent())
    const client = dial(proxy)
    client.send(chatRequest(key, { stream: true }))
    const exchange = await provider.exchange(provider.exchanges.length + 1)
    await exchange.head(200, { "content-type": "text/event-stream" })
    for (const word of ["first", "second"]) {
      await exchange.chunk(sseEvent(chatChunk({ content: word })))
      await client.receives(word)
    }
    client.reset()
    const [call] = await until(
      () => operators.calls(`?account=${id}`),
      (calls) => calls.some(({ state }) => state === "settled"),
    )
    expect(call).toMatchObject({ state: "settled", ending: "client_left" })
  })

  shown("lets through a body of limits.body", async () => {
    const { key } = await operators.account("1000000")
    const draft = chatDraft(key, { messages: [{ role: "user", content: "x".repeat(20 * 1_048_576 - 200) }] })
    expect((await ask(requestBytes(draft))).status).toBe(200)
  })

  test.skipIf(is_absent || kind.language !== "nginx")(
    "refuses an address more requests at a time than its limit",
    async () => {
      const [block] = blocksUnder("docs/deploying.md", "Reverse proxies", kind.language)
      const most = Number(/limit_conn clients (\d+);/.exec(block?.text ?? "")?.[1])
      const { key } = await operators.account("1000000")
      const { held, release } = heldBack(HELLO)
      provider.reply(held)
      const clients = Array.from({ length: most + 1 }, () => dial(proxy))
      for (const client of clients) client.send(chatRequest(key))
      const statuses = clients.map(async (client) => (await client.answer()).status)
      expect(await Promise.race(statuses)).toBe(429)
      release()
      expect((await Promise.all(statuses)).sort()).toEqual([...Array<number>(most).fill(200), 429])
      for (const client of clients) client.leave()
    },
  )
})
