import { expect, test } from "bun:test"
import { requestBody } from "../../bench/prompt.ts"
import { configFor } from "../../bench/rig.ts"
import { scenarios } from "../../bench/scenarios.ts"
import { specsOf } from "../../bench/suite.ts"
import { loadConfig } from "../../src/config/load.ts"
import { parseChat } from "../../src/wire/requests.ts"

test.each(["quick", "full"] as const)(
  "the rows fit the gateway's configuration and its requests, %s",
  (name) => {
    const specs = specsOf(scenarios, { name, rounds: 5, measure_ms: 3000, warm_ms: 500 })
    expect(new Set(scenarios.map((one) => one.name)).size).toBe(scenarios.length)
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
  },
)
