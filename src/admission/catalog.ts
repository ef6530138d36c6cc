import type { Family, Model } from "../config/config.ts"

/** Why a name is no model of an entry: there is none of this name, or it is open for the other entry only (D15). */
export interface Unlisted {
  readonly code: "model_not_found" | "model_not_allowed"
}

/** The configured models by name: exact, byte for byte, in Maps, so that no name is special (D19). */
export class Catalog {
  readonly #models: Readonly<Record<Family, ReadonlyMap<string, Model>>>

  constructor(models: readonly Model[]) {
    const of = (family: Family) =>
      new Map(models.filter((model) => model.family === family).map((model) => [model.name, model]))
    this.#models = { chat: of("chat"), messages: of("messages") }
  }

  /** The model of this name at the entry of `family`, or why there is none. */
  find(name: string, family: Family): Model | Unlisted {
    const model = this.#models[family].get(name)
    if (model !== undefined) return model
    const other = family === "chat" ? "messages" : "chat"
    return { code: this.#models[other].has(name) ? "model_not_allowed" : "model_not_found" }
  }

  /** The models of an entry, in the configuration's order. */
  list(family: Family): readonly Model[] {
    return [...this.#models[family].values()]
  }
}
