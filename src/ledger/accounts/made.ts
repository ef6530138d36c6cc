/** `known`: it was made before, and nothing has changed. `conflict`: another one has the id, or another unique value. */
export type Made<Name extends string, Resource, Refusal extends string> =
  | ({ readonly outcome: "created" | "known" } & { readonly [Each in Name]: Resource })
  | NotMade<Refusal>

/** A distributive type, so that the outcomes can be told apart. */
type NotMade<Refusal extends string> = Refusal extends string ? { readonly outcome: Refusal } : never
