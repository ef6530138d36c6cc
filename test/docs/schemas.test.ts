import { expect, test } from "bun:test"
import fc from "fast-check"
import { isObject } from "../../src/wire/usage.ts"
import { randomValue } from "./bodies.ts"
import { misfit, type Schema } from "./json-schema.ts"
import { testStage } from "./stage.ts"

const RUNS = Number(process.env.SCHEMA_CASES ?? 150)
const ADMIN_CASES = Number(process.env.SCHEMA_CASES ?? 2)
const stage = await testStage()

const MODELS: Readonly<Record<string, string>> = {
  embeddings: "text-embedding-3-small",
  messages: "claude-sonnet",
}

function schemaAt(name: string): Schema {
  const entry = stage.entries.find((one) => one.name === name)
  const { schema } = entry?.operation.requestBody?.content["application/json"] ?? {}
  if (schema === undefined) throw new Error(`${name} has no body`)
  return schema
}

test("D47 a quote refuses the form of no body that its schema allows, and of each that it does not", async () => {
  const schema = schemaAt("POST /v1/quote")
  const { key } = await stage.gateway.account("10")
  const tried = { fitting: 0, others: 0 }
  const changed = fc.record({
    body: randomValue(schema).filter(isObject),
    drop: fc.option(fc.constantFrom("messages", "input", "max_tokens", "operation"), { nil: null }),
    wrong: fc.option(fc.constantFrom("messages", "stream", "max_tokens", "n", "tools", "input", "system"), {
      nil: null,
    }),
  })
  await fc.assert(
    fc.asyncProperty(changed, async ({ body, drop, wrong }) => {
      const { [drop ?? ""]: _, ...fields } = body
      const asked: Record<string, unknown> = {
        ...fields,
        ...(wrong !== null && wrong in fields && { [wrong]: true }),
        model: MODELS[String(fields.operation)] ?? "gpt-5-mini",
      }
      const answer = await fetch(`${stage.gateway.url}/v1/quote`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(asked),
      })
      const text = await answer.text()
      const why = misfit(stage.document, schema, asked)
      if (why === null) tried.fitting += 1
      else tried.others += 1
      // A price or a context that the model lacks is no fault of the form.
      const is_taken = answer.status === 200 || text.includes('"missing":')
      expect({ asked, why, is_taken, text }).toMatchObject({ is_taken: why === null })
      expect([200, 400]).toContain(answer.status)
    }),
    { numRuns: RUNS, seed: 7 },
  )
  expect(Math.min(tried.fitting, tried.others)).toBeGreaterThan(RUNS / 20)
}, 120_000)

/** Rules about what a value means, which a schema cannot say. */
const MEANINGS = [
  /in the future|such field|no other field|in their place|the id of a key/,
  /expected usage of \w+ by model/,
  /a model of the configuration|the model that the prices are for/,
  /call of this account|refund for a credit|cannot begin before now|at most 9 digits before/,
  /one of main|only one shard|IANA|a day such as|an RFC 3339 time|a URL/,
  /before the last rotation still works/,
]

test("the admin API refuses the form of no body that its schema allows", async () => {
  const faults: string[] = []
  for (const entry of stage.entries.filter(({ name }) => /^(?:POST|PATCH) \/admin\//.test(name))) {
    const { schema } = entry.operation.requestBody?.content["application/json"] ?? {}
    if (schema === undefined) continue
    const world = await stage.world()
    for (const body of fc.sample(randomValue(schema), { numRuns: ADMIN_CASES, seed: 3 })) {
      const { status, text } = await stage.ask(entry, world, { body })
      if (status === 400 && !MEANINGS.some((one) => one.test(text)))
        faults.push(`${entry.name} ${JSON.stringify(body)}: ${text}`)
    }
  }
  expect(faults).toEqual([])
}, 120_000)
