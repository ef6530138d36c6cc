import type { Closed } from "../../src/ledger/journal/end.ts"
import type { Checkpoint, Closing, Hold } from "../../src/ledger/entries.ts"
import type { Reserved } from "../../src/ledger/journal/hold.ts"
import type { Buried } from "../../src/ledger/journal/tombstone.ts"

export interface AuditedCall {
  readonly account_id: string
  readonly amount_nano: bigint
  checkpoint_nano: bigint
  state: string
  charge_nano: bigint | null
  late: boolean
}

/** The books in memory, as simple as they can be: what one statement after the other must come to. */
export class Auditor {
  readonly calls = new Map<string, AuditedCall>()
  readonly balances = new Map<string, bigint>()

  held(account_id: string): bigint {
    let held = 0n
    for (const call of this.calls.values()) {
      if (call.account_id === account_id && call.state === "open") held += call.amount_nano
    }
    return held
  }

  reserve(holds: readonly Hold[]): Reserved["outcome"][] {
    const outcomes = new Map<string, Reserved["outcome"]>()
    const ascending = [...holds].sort(byAmountAndId)
    for (const hold of ascending) {
      const { id } = hold
      const known = this.calls.get(id)
      if (known !== undefined) outcomes.set(id, isSame(known, hold) ? "held" : "closed")
    }
    for (const { id, account_id, amount_nano } of ascending) {
      if (outcomes.has(id)) continue
      const fits = this.#balance(account_id) - this.held(account_id) >= amount_nano
      outcomes.set(id, fits ? "held" : "insufficient_balance")
      if (fits) this.#open(account_id, id, amount_nano, "open", null)
    }
    return holds.map(({ id }) => outcomes.get(id) ?? "conflict")
  }

  close(closings: readonly Closing[]): Closed[] {
    return closings.map(({ id, outcome, charge_nano }) => {
      const call = this.calls.get(id)
      if (call === undefined) return "none"
      const due = call.state === "open" || (call.state === "expired" && outcome === "settled")
      if (!due) return "closed"
      this.#charge(call, charge_nano)
      call.late = call.state === "expired"
      call.state = outcome
      return "applied"
    })
  }

  expire(ids: readonly string[]): boolean[] {
    return ids.map((id) => {
      const call = this.calls.get(id)
      if (call?.state !== "open") return false
      this.#charge(call, call.checkpoint_nano)
      call.state = "expired"
      return true
    })
  }

  checkpoint(checkpoints: readonly Checkpoint[]): void {
    for (const { id, charge_nano } of checkpoints) {
      const call = this.calls.get(id)
      if (call?.state === "open") call.checkpoint_nano = charge_nano
    }
  }

  bury(holds: readonly Hold[]): Buried[] {
    return holds.map(({ id, account_id, amount_nano }) => {
      if (this.calls.has(id)) return "won"
      this.#open(account_id, id, amount_nano, "released", 0n)
      return "buried"
    })
  }

  #open(
    account_id: string,
    id: string,
    amount_nano: bigint,
    state: string,
    charge_nano: bigint | null,
  ): void {
    this.calls.set(id, { account_id, amount_nano, checkpoint_nano: 0n, state, charge_nano, late: false })
  }

  #charge(call: AuditedCall, charge_nano: bigint): void {
    const difference = charge_nano - (call.charge_nano ?? 0n)
    this.balances.set(call.account_id, this.#balance(call.account_id) - difference)
    call.charge_nano = charge_nano
  }

  #balance(account_id: string): bigint {
    return this.balances.get(account_id) ?? 0n
  }
}

function isSame(call: AuditedCall, { account_id, amount_nano }: Hold): boolean {
  return call.state === "open" && call.account_id === account_id && call.amount_nano === amount_nano
}

function byAmountAndId(one: Hold, other: Hold): number {
  if (one.amount_nano !== other.amount_nano) return one.amount_nano < other.amount_nano ? -1 : 1
  return one.id < other.id ? -1 : 1
}
