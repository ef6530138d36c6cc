/** Kinds of credits (D95). */
export const creditKinds = ["payment", "promotion", "plan", "refund", "correction"] as const
export type CreditKind = (typeof creditKinds)[number]
/** Kinds in the journal. `moved`: the balance that left with the account for another shard. */
export const recordedKinds = [...creditKinds, "moved"] as const

/**
 * Changes of credit grants (D95), entries of the journal. `started`: the grant's amount came to the balance at its
 * `effective_at`. `drawn`: spent by calls since the entry before; negative for money that came back. `expired`, `voided`:
 * taken off the balance. `moved`: left with the account for another shard.
 */
export const grantChanges = ["started", "drawn", "expired", "voided", "moved"] as const
export type GrantChange = (typeof grantChanges)[number]

/** Of 0 to 100; credits with a smaller one are drawn first. */
export const DEFAULT_PRIORITY = 50
export const MAX_PRIORITY = 100

/** Parts of the amounts of grants. What was spent is not among them. */
export const grantParts = ["left", "expired", "voided"] as const
export interface GrantSums {
  /** Grants with money left; some may not be effective yet. */
  readonly open: number
  /** As of the last change of each account's grants. */
  readonly nano: Readonly<Record<(typeof grantParts)[number], bigint>>
}
