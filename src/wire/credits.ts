/** Kinds of credits (D95). */
export const creditKinds = ["payment", "promotion", "plan", "refund", "correction"] as const
export type CreditKind = (typeof creditKinds)[number]
/** Kinds in the journal. `moved`: the balance that left with the account for another shard. */
export const recordedKinds = [...creditKinds, "moved"] as const

/** Of 0 to 100; credits with a smaller one are drawn first. */
export const DEFAULT_PRIORITY = 50
export const MAX_PRIORITY = 100
