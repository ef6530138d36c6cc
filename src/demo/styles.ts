import type { Style } from "./answer.ts"
import { Refusal } from "./refusal.ts"

const STYLES: Readonly<Record<string, Style>> = { "demo-small": "small", "demo-large": "large" }

/** The models that answer, by name. */
export const chatModels = Object.keys(STYLES)

/** How a model answers. Throws a `Refusal` for one that the demo does not have. */
export function styleOf(model: string): Style {
  const style = Object.hasOwn(STYLES, model) ? STYLES[model] : undefined
  if (style !== undefined) return style
  throw new Refusal(
    404,
    "invalid_request_error",
    `The model ${JSON.stringify(model.slice(0, 100))} does not exist.`,
    { code: "model_not_found", param: "model" },
  )
}
