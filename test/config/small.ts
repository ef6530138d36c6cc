import { type Config, ConfigError } from "../../src/config/config.ts"
import { loadConfig } from "../../src/config/load.ts"
import type { Sources } from "../../src/config/values.ts"

/** Reads these files alone. */
export const readerOf =
  (files: Readonly<Record<string, string>>): Sources["readFile"] =>
  (path) => {
    const text = files[path]
    if (text === undefined) throw new Error("ENOENT")
    return text
  }

export const sources: Sources = {
  env: {
    OPENAI_API_KEY: "sk-openai",
    ANTHROPIC_API_KEY: "sk-anthropic",
    PRICE: "0.5",
    SPACED: "a b",
    EMPTY: "",
  },
  readFile: readerOf({ "/run/secrets/key": "  sk-from-file\n", "/run/secrets/blank": " \n" }),
}

export const load = (text: string): Config => loadConfig(text, sources)

/** Why a configuration is refused. */
export const refusal = (text: string): string => refusalOf(() => load(text))

/** The sentence with which it is refused. */
export function refusalOf(read: () => unknown): string {
  try {
    read()
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  throw new Error("it was accepted")
}

/** Rows of refused inputs, each with its sentence. */
export const rowsOf = <What extends string | object>(
  refused: Readonly<Record<string, What | readonly What[]>>,
): [said: string, what: What][] =>
  Object.entries(refused).flatMap(([said, whats]) =>
    (Array.isArray(whats) ? whats : [whats]).map((what): [string, What] => [said, what]),
  )

const anUpstream = { family: "chat", base_url: "http://127.0.0.1:9" }
const aModel = {
  name: "m",
  family: "chat",
  upstreams: [{ use: "openai" }],
  price: { input: "1", output: "2" },
  max_output_tokens: 100,
}

/** The smallest configuration with an upstream and a model. JSON is YAML. */
export const small = { upstreams: { openai: anUpstream }, models: [aModel] }

export const and = (sections: object): string => JSON.stringify({ ...small, ...sections })

export const upstream = (fields: object): string =>
  and({ upstreams: { openai: { ...anUpstream, ...fields } } })

export const model = (fields: object): string => and({ models: [{ ...aModel, ...fields }] })
