import { afterEach, describe, expect, test } from "bun:test"
import type { Answer } from "../support/answer.ts"
import { chatModel, PROVIDER_KEY } from "../support/gateway.ts"
import { chatWords, HELLO, heldBack, json, type Script, sse, usage } from "../support/provider.ts"
import { HELD, testHarness } from "./harness.ts"

const completes = HELLO
const streams = sse(chatWords("hello"), { usage: usage(10, 5) })
/** What each upstream, named by the first segment of its path, answers next. */
const scripts = new Map<string, Script[]>()

const harness = await testHarness(configuration)
const account = await harness.account()
harness.provider.reply((exchange) => {
  const { path, body } = exchange.request
  const usual = body.includes('"stream":true') ? streams : completes
  return (scripts.get(upstreamOf(path))?.shift() ?? usual)(exchange)
})
// Failures in a row open a breaker: an answer in between keeps those shut that no test wants open.
afterEach(async () => {
  for (const model of ["first", "second"]) expect((await ask(model)).status).toBe(200)
})

function configuration(url: string) {
  const upstream = (name: string, api_key: string) => ({
    [name]: { family: "chat", base_url: `${url}/${name}`, api_key },
  })
  const model = (...uses: string[]) =>
    chatModel(uses.join("+"), { upstreams: uses.map((use) => ({ use, model: `model-of-${use}` })) })
  return {
    upstreams: {
      ...upstream("first", PROVIDER_KEY),
      ...upstream("second", `${PROVIDER_KEY}-2`),
      nowhere: { family: "chat", base_url: "http://127.0.0.1:1" },
    },
    models: [model("first"), model("second"), model("first", "second"), model("nowhere", "second")],
  }
}

function ask(model: string, fields: object = {}): Promise<Answer> {
  return harness.chat(account.key, { model, ...fields })
}

function script(upstream: string, ...next: Script[]): void {
  scripts.set(upstream, next)
}

function upstreamOf(path: string): string {
  return path.split("/")[1] ?? ""
}

describe("D14 a second upstream is tried while nothing of a 2xx was received", () => {
  const rows: readonly (readonly [fault: string, model: string, first: Script | null])[] = [
    ["unreachable (ECONNREFUSED)", "nowhere+second", null],
    ["status 503", "first+second", json(503, {})],
  ]
  const cases = rows.flatMap(([fault, ...row]) =>
    [false, true].map((stream) => [fault, stream, ...row] as const),
  )
  test.each(cases)("%s, stream %p, with a warning in the log", async (fault, stream, model, first) => {
    const [one = "", two = ""] = model.split("+")
    if (first !== null) script(one, first)
    const before = await harness.gateway.calls(`?account=${account.id}`)
    const asked = harness.provider.requests.length
    const answer = await ask(model, { stream })
    const requests = harness.provider.requests.slice(asked)
    const tried = first === null ? [two] : [one, two]
    const [call, ...earlier] = await harness.gateway.calls(`?account=${account.id}`)
    // The attempts of the call before are recorded later (D93).
    expect(earlier.map(({ id }) => id)).toEqual(before.map(({ id }) => id))
    expect(answer).toMatchObject({ status: 200, headers: { "x-request-id": String(call?.id) } })
    expect(call).toMatchObject({
      state: "settled",
      basis: "usage",
      upstream: two,
      charge: "0.00003",
      failure: null,
    })
    const logged = harness.gateway.lines.filter((line) => line.includes(String(call?.id)))
    expect(logged.map((line) => JSON.parse(line))).toMatchObject([
      { level: 40, msg: "upstream attempt failed", upstream: one, fault },
      { level: 30, msg: "call", upstream: two },
    ])
    expect(
      requests.map(({ headers, json: body }) => [headers["x-request-id"], headers.authorization, body]),
    ).toEqual(
      tried.map((name) => [
        call?.id,
        `Bearer ${name === "second" ? `${PROVIDER_KEY}-2` : PROVIDER_KEY}`,
        expect.objectContaining({ model: `model-of-${name}` }),
      ]),
    )
  })

  test("one reservation spans all attempts", async () => {
    const { id, key } = await harness.account(HELD)
    const release = heldBack(completes)
    script("first", json(503, {}))
    script("second", release.held)
    const arrived = harness.provider.requests.length + 2
    const answer = harness.chat(key, { model: "first+second" })
    await harness.provider.exchange(arrived)
    expect(await harness.gateway.balance(id)).toMatchObject({ held: HELD, available: "0" })
    expect(await harness.gateway.calls(`?account=${id}`)).toMatchObject([{ state: "open", held: HELD }])
    release.release()
    expect((await answer).status).toBe(200)
    expect(await harness.gateway.balance(id)).toMatchObject({ held: "0", balance: "0.004013" })
  })
})
