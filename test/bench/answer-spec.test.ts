import { describe, expect, test } from "bun:test"
import {
  type AnswerSpec,
  jsonAnswer,
  streamOf,
  streamWrites,
  tokensOf,
  type Write,
} from "../../bench/answer-spec.ts"
import { EventScanner } from "../../bench/event-scanner.ts"
import { promptOf, requestBody } from "../../bench/prompt.ts"
import { configFor } from "../../bench/rig.ts"
import { scenarios } from "../../bench/scenarios.ts"
import { specsOf } from "../../bench/suite.ts"
import { loadConfig } from "../../src/config/load.ts"
import { readUsage } from "../../src/usage/reading.ts"
import { parseChat } from "../../src/wire/chat-request.ts"

const size = { name: "full", rounds: 5, measure_ms: 3000, warm_ms: 500 } as const

/** The output tokens that the end of a stream reports. */
function reported(writes: readonly Write[]): number {
  const end = new TextDecoder().decode(writes.at(-1)?.bytes)
  return Number(/"(?:completion|output)_tokens":(\d+)/.exec(end)?.[1])
}

describe("what a provider answers", () => {
  const rows = [
    ["one event a write", { events: 50, together: 1 }],
    ["many events a write", { events: 1000, together: 64 }],
    ["all at once", { events: 7, together: 100 }],
    ["one event", { events: 1, together: 1 }],
  ] as const
  test.each(rows)("a stream has all its events and reports them: %s", (_name, { events, together }) => {
    for (const lean of [true, false]) {
      const writes = streamWrites(streamOf(events, { together, lean }))
      const scanner = new EventScanner()
      const seen = writes.reduce((sum, { bytes }) => sum + scanner.feed(Buffer.from(bytes)), 0)
      expect(writes.reduce((sum, write) => sum + write.events, 0)).toBe(events)
      // Beside the contents: the role, the finish reason and the usage.
      expect(seen).toBe(events + 3)
      expect(scanner).toMatchObject({ done: true, content_seen: true })
      expect(reported(writes)).toBe(events)
    }
  })

  test.each(rows)("a stream of messages too: %s (D64)", (_name, { events, together }) => {
    const scanner = new EventScanner()
    const writes = streamWrites(streamOf(events, { family: "messages", together }))
    const seen = writes.reduce((sum, { bytes }) => sum + scanner.feed(Buffer.from(bytes)), 0)
    // Beside the contents: the start of the message and of its block, the end of the block, and the usage.
    expect(seen).toBe(events + 4)
    expect(scanner).toMatchObject({ done: true, content_seen: true })
    expect(reported(writes)).toBe(events)
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
