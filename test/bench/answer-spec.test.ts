import { describe, expect, test } from "bun:test"
import {
  type AnswerSpec,
  jsonAnswer,
  streamEvents,
  streamOf,
  streamWrites,
  tokensOf,
} from "../../bench/answer-spec.ts"
import { EventCounter } from "../../bench/event-counter.ts"
import { promptOf, requestBody } from "../../bench/prompt.ts"
import { configFor } from "../../bench/rig.ts"
import { scenarios } from "../../bench/scenarios.ts"
import { specsOf } from "../../bench/suite.ts"
import { loadConfig } from "../../src/config/load.ts"
import { readUsage } from "../../src/usage/reading.ts"
import { parseChat } from "../../src/wire/requests.ts"

const size = { name: "full", rounds: 5, measure_ms: 3000, warm_ms: 500 } as const

describe("what a provider answers", () => {
  const rows = [
    ["one event a write", { events: 50, together: 1 }],
    ["many events a write", { events: 1000, together: 64 }],
    ["all in one write", { events: 7, together: 100 }],
    ["one event", { events: 1, together: 1 }],
  ] as const
  const kinds = [{ lean: true }, { lean: false }, { family: "messages" }] as const
  test.each(rows)("a stream has all its events and reports them (D64): %s", (_name, { events, together }) => {
    for (const kind of kinds) {
      const spec = streamOf(events, { together, ...kind })
      const writes = streamWrites(spec)
      const seen = streamEvents(spec)
      const counter = new EventCounter()
      expect(writes.reduce((sum, bytes) => sum + counter.feed(bytes), 0)).toBe(seen?.events ?? 0)
      const text = writes.map((bytes) => new TextDecoder().decode(bytes)).join("")
      const parts = text.split("\n\n")
      expect(parts.filter((part) => part.includes("xxxxx"))).toHaveLength(events)
      expect(parts.findIndex((part) => part.includes("xxxxx"))).toBe((seen?.first_output ?? 0) - 1)
      const end = new TextDecoder().decode(writes.at(-1))
      expect(Number(/"(?:completion|output)_tokens":(\d+)/.exec(end)?.[1])).toBe(events)
    }
  })

  test("the usage of a JSON answer is valid, and the one that is audited by (D1)", () => {
    const spec: AnswerSpec = { kind: "json", content_bytes: 400, delay_ms: 0 }
    const body: { usage: unknown } = JSON.parse(new TextDecoder().decode(jsonAnswer(spec)))
    expect(readUsage(body.usage)).toEqual({ state: "valid", usage: tokensOf(spec), notes: [] })
  })
})

describe("the rows of the table", () => {
  test("have names of their own", () => {
    const names = scenarios.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
  })

  test.each(["quick", "full"] as const)("fit the gateway's configuration and its requests, %s", (name) => {
    const sized = { ...size, name }
    const specs = specsOf(scenarios, sized)
    const sources = { env: {}, readFile: () => "" }
    const config = loadConfig(JSON.stringify(configFor("http://127.0.0.1:9", specs)), sources)
    expect(config.models.map((model) => model.name)).toEqual(Object.keys(specs))
    for (const [model, spec] of Object.entries(specs)) {
      if (spec.kind === "count") continue
      const request = parseChat(JSON.parse(requestBody(model, spec, 600)))
      expect({ model: request.model, stream: request.stream ?? false }).toEqual({
        model,
        stream: spec.kind === "stream",
      })
    }
  })
})

test.each([1, 600, 5000, 1_048_576])("a prompt has about %d bytes", (bytes) => {
  const length = promptOf(bytes).reduce((sum, { content }) => sum + content.length, 0)
  expect(length).toBeWithin(bytes * 0.99, bytes + 1)
})
