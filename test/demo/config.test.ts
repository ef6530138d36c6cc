import { expect, test } from "bun:test"
import { loadConfig } from "../../src/config/load.ts"
import { demoConfig } from "../../src/demo/demo-config.ts"
import { PROVIDER_KEY } from "../../src/demo/provider.ts"

test("the demo's configuration passes the loader that every file passes: two chat models, one of embeddings, one messages model, with prices", () => {
  const { models, upstreams } = loadConfig(demoConfig("http://127.0.0.1:4000"), {
    env: {},
    readFile: (path) => {
      throw new Error(`the demo reads no file, and not ${path}`)
    },
  })
  expect(models.map(({ family }) => family)).toEqual(["chat", "chat", "chat", "messages"])
  expect(models.map(({ operations }) => operations)).toEqual([
    ["chat", "responses"],
    ["chat", "responses"],
    ["embeddings"],
    ["messages"],
  ])
  for (const { price } of models) expect(price.input_pico).toBeGreaterThan(0n)
  expect(upstreams.map(({ family, base_url, keys }) => [family, base_url, keys[0].api_key])).toEqual([
    ["chat", "http://127.0.0.1:4000/v1", PROVIDER_KEY],
    ["messages", "http://127.0.0.1:4000", PROVIDER_KEY],
  ])
})
