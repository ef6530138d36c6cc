import { expect, test } from "bun:test"
import { ConfigError } from "../../src/config/config.ts"
import { configOf, takeSnapshot } from "../../src/config/load.ts"
import { small } from "./small.ts"

const [name, upstream] = Object.entries(small.upstreams)[0] ?? []
// biome-ignore lint/suspicious/noTemplateCurlyInString: references of the file
const api_key = "${A}-${file:__proto__}"
const text = JSON.stringify({ ...small, upstreams: { [name ?? ""]: { ...upstream, api_key } } })
const env = { A: "sk" }

test("another process makes the same of a snapshot, whatever has become of the files", () => {
  const { config, snapshot } = takeSnapshot(text, { env, readFile: () => "secret\n" })
  expect(config.upstreams[0]?.keys[0].api_key).toBe("sk-secret")
  expect(configOf(structuredClone(snapshot), env)).toEqual(config)
})

test("what cannot be loaded gives no snapshot", () => {
  const readFile = () => {
    throw new Error("gone")
  }
  expect(() => takeSnapshot(text, { env, readFile })).toThrow(ConfigError)
})
