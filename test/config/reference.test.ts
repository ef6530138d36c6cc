// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the configuration writes its references like this
import { describe, expect, test } from "bun:test"
import { loadConfig } from "../../src/config/load.ts"
import { load, readerOf, refusal, refusalOf, sources, upstream } from "./small.ts"

describe("references", () => {
  const keyOf = (reference: string) => load(upstream({ api_key: reference })).upstreams[0]?.keys[0].api_key

  test.each([
    ["a variable", "${OPENAI_API_KEY}", "sk-openai"],
    ["within a text", "x-${OPENAI_API_KEY}-y", "x-sk-openai-y"],
    ["two", "${PRICE}${PRICE}", "0.50.5"],
    ["a file, trimmed", "${file:/run/secrets/key}", "sk-from-file"],
    ["a dollar without braces is a dollar", "$OPENAI_API_KEY", "$OPENAI_API_KEY"],
    ["braces without a dollar are braces", "{OPENAI_API_KEY}", "{OPENAI_API_KEY}"],
  ])("%s", (_, reference, api_key) => {
    expect(keyOf(reference)).toBe(api_key)
  })

  describe("a variable whose value is in a file", () => {
    const text = upstream({ api_key: "${PROVIDER_KEY}" })
    const readFile = readerOf({ "/run/key": "sk-from-file\n", "/run/blank": " \n" })
    const read = (env: Record<string, string>) => loadConfig(text, { env, readFile })

    test("that NAME_FILE names; its last line break is none of it", () => {
      expect(read({ PROVIDER_KEY_FILE: "/run/key" }).upstreams[0]?.keys[0].api_key).toBe("sk-from-file")
      expect(read({ PROVIDER_KEY_FILE: "/run/key", PROVIDER_KEY: "" }).upstreams[0]?.keys[0].api_key).toBe(
        "sk-from-file",
      )
      expect(read({ PROVIDER_KEY_FILE: "", PROVIDER_KEY: "sk" }).upstreams[0]?.keys[0].api_key).toBe("sk")
    })

    test.each([
      [
        "both",
        { PROVIDER_KEY: "sk", PROVIDER_KEY_FILE: "/run/key" },
        "the environment variable PROVIDER_KEY to be unset when PROVIDER_KEY_FILE is set",
      ],
      [
        "a file that is not there",
        { PROVIDER_KEY_FILE: "/run/nope" },
        "the file that PROVIDER_KEY_FILE names to be readable and not empty",
      ],
      [
        "a blank file",
        { PROVIDER_KEY_FILE: "/run/blank" },
        "the file that PROVIDER_KEY_FILE names to be readable and not empty",
      ],
    ])("%s stops the start", (_, env, expected) => {
      expect(refusalOf(() => read(env))).toBe(`upstreams.openai.api_key: expected ${expected}`)
    })
  })

  test("what is put in is not looked at again", () => {
    const twice = { ...sources, env: { A: "${B}", B: "no" } }
    expect(loadConfig(upstream({ api_key: "${A}" }), twice).upstreams[0]?.keys[0].api_key).toBe("${B}")
    const dollars = { ...sources, env: { A: "$&$1$$" } }
    expect(loadConfig(upstream({ api_key: "${A}" }), dollars).upstreams[0]?.keys[0].api_key).toBe("$&$1$$")
  })

  test("anywhere in the file", () => {
    const [model] = load(upstream({}).replace('"1"', '"${PRICE}"')).models
    expect(model?.price.input_pico).toBe(500_000n)
  })

  const missing = "upstreams.openai.api_key: expected the"
  const form = "upstreams.openai.api_key: expected a reference of the form ${NAME} or ${file:PATH}"
  test.each([
    ["an unset variable", "${NOPE}", `${missing} environment variable NOPE to be set and not empty`],
    ["an empty variable", "${EMPTY}", `${missing} environment variable EMPTY to be set and not empty`],
    [
      "a variable that every object has",
      "${constructor}",
      `${missing} environment variable constructor to be set and not empty`,
    ],
    ["a missing file", "${file:/nope}", `${missing} file /nope to be readable and not empty`],
    [
      "a missing file below the working directory",
      "${file:nope}",
      `${missing} file nope (relative to the working directory of the gateway) to be readable and not empty`,
    ],
    [
      "a blank file",
      "${file:/run/secrets/blank}",
      `${missing} file /run/secrets/blank to be readable and not empty`,
    ],
    ["no name", "${}", form],
    ["a name with a dash", "${OPENAI-API-KEY}", form],
    ["a name with a default", "${NOPE:-x}", form],
    ["no end", "${OPENAI_API_KEY", form],
    [
      "one good, one missing",
      "${OPENAI_API_KEY}${NOPE}",
      `${missing} environment variable NOPE to be set and not empty`,
    ],
  ])("%s stops the start", (_, reference, message) => {
    expect(refusal(upstream({ api_key: reference }))).toBe(message)
  })

  test("a key that no header can carry is refused, and not shown", () => {
    const message = refusal(upstream({ api_key: "${SPACED}" }))
    expect(message).toBe("upstreams.openai.api_key: expected printable ASCII without spaces")
  })
})
