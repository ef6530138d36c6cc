/** Alerts of gateways, which are events but no entries of the journal (D96). */

export const alertEvents = [
  "tollgate.balance.low",
  "tollgate.upstream.down",
  "tollgate.upstream.up",
  "tollgate.upstream.account_refused",
] as const
export type AlertType = (typeof alertEvents)[number]

export type AlertDetails =
  /** In nano-USD, as texts. */
  | { readonly balance: string; readonly threshold: string }
  | { readonly upstream: string; readonly upstream_key: string | null }

/** A trouble of an upstream, as one process sees it now. */
export interface Trouble {
  readonly upstream: string
  /** Null for the upstream itself. */
  readonly key: string | null
  /** `down`: calls skip it. `account_refused`: the provider refuses the operator's account or key, or it is empty. */
  readonly trouble: "down" | "account_refused"
  readonly is_on: boolean
}
