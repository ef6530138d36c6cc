import type { MadeAnswerMemory, Memory } from "../../admission/memory.ts"
import type { Config } from "../../config/config.ts"
import type { Audit } from "../../ledger/archive/audit.ts"
import type { OperatorLedger } from "../../ledger/operators.ts"
import type { IdentityProvider } from "../../oidc/identity-provider.ts"
import type { ChangeBody } from "../../wire/operators.ts"
import type { ComparedUsage } from "../../wire/reconciliation.ts"
import type { Provider } from "../../wire/reconciliation-words.ts"
import type { RecordedRole } from "../../wire/roles.ts"
import type { UpstreamBody } from "../../wire/statistics.ts"

export interface Operators {
  /** The bearer token of `/admin`; null: there is no `/admin`. */
  readonly admin_token: string | null
  /** The name of the token's holder in the log. Default: configured. */
  readonly actor?: string
  readonly ledger: OperatorLedger
  readonly limits: Config["limits"]
  readonly memory: Memory
  /** The configured models; null without a configuration, so that names of models are not checked. */
  readonly models: Config["models"] | null
  /** The status of the upstreams in each process of this gateway. */
  upstreams(): Promise<readonly UpstreamBody[]>
  /** True once the gateway drains. Then no request waits. */
  draining?(): boolean
  /** The address that sent a request; null if the connection is over. */
  addressOf?(request: Request): string | null
  /** The sender of a request, by which capacity is shared: its IPv4 address, or the 64-bit network of its IPv6 address. */
  senderOf?(request: Request): string
  /** Signs persons in to the console (D103); null or absent for none. */
  readonly identity_provider?: IdentityProvider | null
  /** Called with the reason of each sign-in that the provider, or the roles of the configuration, refused. */
  signInFailed?(reason: string): void
  onChange?(role: RecordedRole, outcome: ChangeBody["outcome"]): void
  onAudit?(audit: Audit): void
  onReconciliation?(provider: Provider, at: Date, compared: ComparedUsage): void
}

/** The memory of a large answer (D113). Operators share it like an account. */
export const madeAnswer = ({ memory, limits }: Operators): MadeAnswerMemory =>
  memory.made("operators", limits)
