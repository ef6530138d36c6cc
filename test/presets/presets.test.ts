import { afterAll, describe, expect, test } from "bun:test"
import { operationsOf } from "../../src/config/config.ts"
import { loadConfig } from "../../src/config/load.ts"
import { presetNames, presets } from "../../src/presets/presets.ts"
import { endSound, PRICE, startGateway } from "../support/gateway.ts"
import { aMessage } from "../support/messages.ts"
import { chatCompletion, json, type Provider, startProvider, usage } from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { responseObject, textItem } from "../support/responses.ts"
import { exampleFile, type Shown, shown, sources } from "./page.ts"
import { scriptOf, WORDS } from "./scripted.ts"
import { messagesServers, type Server, servers } from "./servers.ts"

/**
 * D83: each provider is attached by the lines of docs/providers.md alone, to a scripted server that refuses what the provider
 * refuses. Only the host is another one.
 */

const cases: readonly (readonly [name: string, server: Server, entry: Shown["entry"]])[] = [
  ...shown.map(({ name, entry }) => [name, serverOf(servers, name), entry] as const),
  ...Object.entries(messagesServers).map(
    ([name, server]) => [`${name}-messages`, server, { ...entryOf(name), family: "messages" }] as const,
  ),
]

function serverOf(of: Readonly<Record<string, Server>>, name: string): Server {
  const server = of[name]
  if (server === undefined) throw new Error(`no scripted server for ${name}`)
  return server
}

function entryOf(name: string): Shown["entry"] {
  return shown.find((each) => each.name === name)?.entry ?? {}
}

/** The lines of the page, at a server of this machine. */
function placed({ base_url = "", ...entry }: Shown["entry"], { url }: Provider) {
  const path = base_url === "" ? "" : new URL(base_url).pathname.replace(/\/$/, "")
  return { ...entry, base_url: url + path, api_key: "sk-a" }
}

const spare_answers = {
  responses: responseObject([textItem("spare")]),
  completions: chatCompletion("spare", { usage: usage(1, 1) }),
  messages: aMessage("spare"),
}

const providers = new Map<string, Provider>()
/** What the server of a name refuses now. */
const refusals = new Map<string, readonly [number, unknown, ...string[]]>()

const spare = await startProvider()
spare.reply((exchange) => {
  const last = exchange.request.path.split("/").at(-1)
  const answer = Object.entries(spare_answers).find(([name]) => name === last)?.[1]
  return json(200, answer)(exchange)
})
const upstreams: Record<string, unknown> = {
  spare: { family: "chat", base_url: `${spare.url}/v1` },
  "spare-messages": { family: "messages", base_url: spare.url },
}
for (const [name, server, entry] of cases) {
  const provider = await startProvider()
  provider.reply(scriptOf(server, () => refusals.get(name) ?? null))
  providers.set(name, provider)
  upstreams[name] = placed(entry, provider)
}
const models = cases.map(([name, { operation, model }]) => {
  const family = operation === "messages" ? "messages" : "chat"
  const backup = family === "chat" ? "spare" : "spare-messages"
  const ways = [{ use: name, model }, { use: backup }]
  return { name, family, operations: [operation], upstreams: ways, price: PRICE, max_output_tokens: 1_000 }
})
const gateway = await startGateway(spare, { upstreams, models })
const key = (await gateway.account("100")).key
afterAll(async () => {
  await endSound(gateway, spare)
  await Promise.all([...providers.values()].map((provider) => provider.stop()))
})

const PROMPT = "Tell me in a few words how this call is billed."
const PATHS = { chat: "/v1/chat/completions", responses: "/v1/responses", messages: "/v1/messages" }

function call(name: string, { operation, sent }: Server, stream: boolean): Promise<Response> {
  const content =
    operation === "responses" ? { input: PROMPT } : { messages: [{ role: "user", content: PROMPT }] }
  const limit = operation === "messages" ? { max_tokens: 100 } : {}
  return postJson(
    gateway.url + PATHS[operation],
    key,
    { model: name, stream, ...content, ...limit, ...sent },
    { "anthropic-version": "2023-06-01" },
  )
}

/** Which upstream served the call of an answer, and what it was charged. */
async function recorded(response: Response) {
  const { upstream, basis, charge, notes } = await gateway.callOf(response)
  return { upstream, basis, charge, notes }
}

describe.each([...cases])("%s", (name, server) => {
  const served = { upstream: name, basis: "usage", charge: "0.00006", notes: [] }

  test("a JSON call", async () => {
    const response = await call(name, server, false)
    expect({ status: response.status, text: await response.text() }).toMatchObject({
      status: 200,
      text: expect.stringContaining(WORDS.join("")),
    })
    expect(await recorded(response)).toEqual(served)
  })

  test("a stream", async () => {
    const response = await call(name, server, true)
    const text = await response.text()
    for (const word of WORDS) expect(text).toContain(JSON.stringify(word))
    expect(await recorded(response)).toEqual(served)
  })

  test("a refusal of the request is the client's", async () => {
    const [status, body, words] = server.refusal
    refusals.set(name, [status, body])
    const response = await call(name, server, false)
    expect({ status: response.status, text: await response.text() }).toMatchObject({
      status: 400,
      text: expect.stringContaining(words),
    })
    refusals.delete(name)
    expect((await call(name, server, false)).status).toBe(200)
    expect(await keyState(name)).toBe("ready")
  })

  test("a refusal of the operator's key or account is not: the next upstream answers", async () => {
    refusals.set(name, server.account)
    const response = await call(name, server, true)
    expect({ status: response.status, text: await response.text() }).toMatchObject({
      status: 200,
      text: expect.stringContaining("spare"),
    })
    expect((await recorded(response)).upstream).toMatch(/^spare/)
    expect(await keyState(name)).toBe("refused")
  })
})

async function keyState(name: string): Promise<string | undefined> {
  const { data } = await gateway.admin<{ data: { name: string; keys: { state: string }[] }[] }>(
    "GET",
    "/upstreams",
  )
  return data.find((upstream) => upstream.name === name)?.keys[0]?.state
}

describe("docs/providers.md", () => {
  test("shows each preset in five lines", () => {
    expect(new Set(shown.map(({ entry }) => entry.provider))).toEqual(new Set(presetNames))
    expect(shown.filter(({ name, lines }) => lines > (name === "bedrock-claude" ? 6 : 5))).toEqual([])
  })

  test("says of each preset what its chat endpoint offers", async () => {
    const page = await Bun.file("docs/providers.md").text()
    const said = page.split("\n## ").flatMap((text) => {
      const name = /provider: ([a-z0-9-]+)/.exec(text)?.[1]
      const offers = /^- ([^.:;]*)/m.exec(text)?.[1]?.toLowerCase() ?? ""
      const operations = ["chat", "embeddings", "responses"].filter((one) => offers.includes(one))
      return name === undefined || text.startsWith("#") ? [] : [[name, operations] as const]
    })
    const offered = presetNames.map((name) => {
      const { chat } = presets[name] ?? {}
      return [name, chat === undefined ? [] : [...(chat.operations ?? operationsOf.chat)].sort()] as const
    })
    expect(Object.fromEntries(said)).toEqual(Object.fromEntries(offered))
  })

  test("its lines are ones that the loader takes as they stand, and so is its whole file", () => {
    const upstreams = Object.fromEntries(shown.map(({ name, entry }) => [name, entry]))
    const config = loadConfig(JSON.stringify({ upstreams }), sources)
    expect(config.upstreams.map(({ preset }) => preset?.from)).toEqual(shown.map(() => "provider"))
    expect(loadConfig(exampleFile, sources).models).toHaveLength(1)
  })
})
