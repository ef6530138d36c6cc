import { afterAll, describe, expect, test } from "bun:test"
import { sentTo } from "../../src/upstream/edits.ts"
import { FieldTexts } from "../../src/wire/json.ts"
import { load, upstream as written } from "../config/small.ts"
import { type RecordedRequest, startProvider } from "../support/provider.ts"
import { answers, send, textOf } from "./calling.ts"

const provider = await startProvider()
provider.reply(answers)
afterAll(() => provider.stop())

const BODY = { model: "m", messages: [], stream: true, provider: { only: ["a"], sort: "price" }, seed: 7 }

/** What the provider is asked by an upstream with these keys in the configuration. */
async function asked(keys: Record<string, unknown>, path = "/chat/completions"): Promise<RecordedRequest> {
  const { base_url = "/v1", ...others } = keys
  const config = load(written({ base_url: `${provider.url}${base_url}`, api_key: "sk-key", ...others }))
  const [upstream] = config.upstreams
  if (upstream === undefined) throw new Error("no upstream")
  const texts = new FieldTexts(BODY)
  const reply = await send([{ upstream, model: "their/name", priority: 0, weight: 1 }], {
    path,
    stream: true,
    body: ({ upstream, model }) =>
      sentTo(upstream, texts, { stream_options: { include_usage: true }, model }),
  })
  await textOf(reply.body)
  const request = provider.requests.at(-1)
  if (request === undefined) throw new Error("no request")
  return request
}

describe("D81 how an upstream is asked", () => {
  const credentials: [auth: unknown, header: string, value: string][] = [
    [undefined, "authorization", "Bearer sk-key"],
    ["bearer", "authorization", "Bearer sk-key"],
    ["x-api-key", "x-api-key", "sk-key"],
    ["api-key", "api-key", "sk-key"],
    [{ header: "Ocp-Apim-Subscription-Key" }, "ocp-apim-subscription-key", "sk-key"],
  ]
  test.each(credentials)("auth %j: %s", async (auth, header, value) => {
    const { headers } = await asked(auth === undefined ? {} : { auth })
    expect(headers[header]).toBe(value)
    const names = ["authorization", "x-api-key", "api-key"].filter((name) => name !== header)
    for (const name of names) expect(headers[name]).toBeUndefined()
  })

  test("headers are added, and replace neither the credential nor what frames the request", async () => {
    const { headers } = await asked({
      headers: {
        "x-title": "Tollgate",
        "user-agent": "us/1",
        authorization: "Bearer other",
        accept: "text/plain",
      },
    })
    expect(headers).toMatchObject({
      "x-title": "Tollgate",
      "user-agent": "us/1",
      authorization: "Bearer sk-key",
    })
    expect(headers.accept).toContain("application/json")
  })

  const addresses: [keys: Record<string, unknown>, path: string, asked: string][] = [
    [
      { query: { "api-version": "2024-10-21" } },
      "/chat/completions",
      "/v1/chat/completions?api-version=2024-10-21",
    ],
    [{ query: { a: "b c", d: "&" } }, "/v1/messages?beta=true", "/v1/v1/messages?beta=true&a=b+c&d=%26"],
    [
      { base_url: "/openai/deployments/{model}", query: { v: "1" } },
      "/chat/completions",
      "/openai/deployments/their%2Fname/chat/completions?v=1",
    ],
  ]
  test.each(addresses)("%j", async (keys, path, target) => {
    for (let times = 0; times < 2; times++) expect((await asked(keys, path)).path).toBe(target)
  })

  const { stream_options, model } = { stream_options: { include_usage: true }, model: "their/name" }
  const sent = { ...BODY, model, stream_options }
  const edits: [keys: Record<string, unknown>, body: object][] = [
    [{}, sent],
    [{ drop: ["stream_options"] }, { ...BODY, model }],
    [{ drop: ["seed", "absent", "absent.too"] }, { ...sent, seed: undefined }],
    [{ set: { store: false, "a.b": [1] } }, { ...sent, store: false, a: { b: [1] } }],
  ]
  test.each(edits)("%j", async (keys, body) => {
    expect((await asked(keys)).json).toEqual(JSON.parse(JSON.stringify(body)))
  })
})
