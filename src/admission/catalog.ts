import type { Family, Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"

/** What a client is told that asks for a model of this family at the other's entry. */
const OTHER_ENTRY: Readonly<Record<Family, string>> = {
  chat: "This model is of the chat family: it answers at POST /v1/chat/completions.",
  messages: "This model is of the messages family: its tokens are counted at POST /v1/messages/count_tokens.",
}

/** The configured models by name: exact, byte for byte, in Maps, so that no name is special (D19). */
export class Catalog {
  readonly #models: Readonly<Record<Family, ReadonlyMap<string, Model>>>

  constructor(models: readonly Model[]) {
    const of = (family: Family) =>
      new Map(models.filter((model) => model.family === family).map((model) => [model.name, model]))
    this.#models = { chat: of("chat"), messages: of("messages") }
  }

  /** The model of this name at the entry of `family`, or why there is none: it may be open for the other entry only (D15). */
  find(name: string, family: Family): Model | GatewayError {
    const model = this.#models[family].get(name)
    if (model !== undefined) return model
    const other = family === "chat" ? "messages" : "chat"
    return this.#models[other].has(name)
      ? new GatewayError("model_not_allowed", { param: "model", message: OTHER_ENTRY[other] })
      : new GatewayError("model_not_found", { param: "model" })
  }

  /** The models of an entry, in the configuration's order. */
  list(family: Family): readonly Model[] {
    return [...this.#models[family].values()]
  }
}
