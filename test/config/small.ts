import { type Config, ConfigError } from "../../src/config/config.ts"
import { loadConfig } from "../../src/config/load.ts"
import type { Sources } from "../../src/config/values.ts"

/** The example of the public interface, word by word. */
export const contract = await Bun.file(`${import.meta.dir}/contract.yaml`).text()

const files: Readonly<Record<string, string>> = {
  "/run/secrets/key": "  sk-from-file\n",
  "/run/secrets/blank": " \n",
}

export const sources: Sources = {
  env: {
    OPENAI_API_KEY: "sk-openai",
    ANTHROPIC_API_KEY: "sk-anthropic",
    PRICE: "0.5",
    SPACED: "a b",
    EMPTY: "",
  },
  readFile(path) {
    const text = files[path]
    if (text === undefined) throw new Error("ENOENT")
    return text
  },
}

export const load = (text: string): Config => loadConfig(text, sources)

/** Why a configuration is refused. */
export function refusal(text: string): string {
  try {
    load(text)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  throw new Error("the configuration was accepted")
}

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
