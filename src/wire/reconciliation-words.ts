/** Words of reconciliations (D98), apart from the schemas, for a page that validates nothing. */

/** Providers whose usage exports can be compared. */
export const providers = ["openai", "anthropic", "openrouter"] as const
export type Provider = (typeof providers)[number]

/** Explanations of a difference, in the order in which they apply. */
export const causes = ["attempts", "estimates", "cut", "boundary", "elsewhere"] as const
export type Cause = (typeof causes)[number]

/** `no_data`: not in the export. `too_young`: may still change. `not_sold`: without a call, the price is unknown. */
export const comparedStates = ["compared", "no_data", "too_young", "not_sold"] as const
export type ComparedState = (typeof comparedStates)[number]

/** The export in a file: its JSON, or the text itself if it is none. */
export function exportIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
