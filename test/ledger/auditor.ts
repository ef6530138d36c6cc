import type { Checkpoint, End, Hold } from "../../src/ledger/entries.ts"
import type { EndResult } from "../../src/ledger/money/end-exact.ts"
import type { HoldAttempt } from "../../src/ledger/money/hold-exact.ts"

export interface AuditedCall {
  readonly account_id: string
  readonly amount_nano: bigint
  end: { readonly outcome: string; readonly charge_nano: bigint } | null
  correction: { readonly charge_nano: bigint; readonly difference_nano: bigint } | null
}

/** The ledger in memory, as simple as it can be: what one statement after the other must come to. */
export class Auditor {
  readonly calls = new Map<string, AuditedCall>()
  readonly balances = new Map<string, bigint>()
  readonly checkpoints = new Map<string, bigint>()

  balance(account_id: string): bigint {
    return this.balances.get(account_id) ?? 0n
  }

  held(account_id: string): bigint {
    let held = 0n
    for (const call of this.calls.values()) {
      if (call.account_id === account_id && call.end === null) held += call.amount_nano
    }
    return held
  }

  hold(holds: readonly Hold[]): HoldAttempt["outcome"][] {
    const outcomes = new Map<string, HoldAttempt["outcome"]>()
    const ascending = [...holds].sort(byAmountAndId)
    for (const hold of ascending) {
      const known = this.calls.get(hold.id)
      if (known !== undefined) outcomes.set(hold.id, isSame(known, hold) ? "held" : "closed")
    }
    for (const hold of ascending) {
      if (outcomes.has(hold.id)) continue
      const fits = this.balance(hold.account_id) - this.held(hold.account_id) >= hold.amount_nano
      outcomes.set(hold.id, fits ? "held" : "insufficient_balance")
      if (fits) this.#add(hold)
    }
    return holds.map(({ id }) => outcomes.get(id) ?? "conflict")
  }

  end(ends: readonly End[]): EndResult[] {
    return ends.map(({ id, outcome, charge_nano }) => {
      const call = this.calls.get(id)
      if (call === undefined) return "none"
      if (call.end === null) {
        call.end = { outcome, charge_nano }
        this.#pay(call, charge_nano)
        return "applied"
      }
      const is_late = call.end.outcome === "expired" && call.correction === null && outcome === "settled"
      if (!is_late) return "closed"
      const difference_nano = charge_nano - call.end.charge_nano
      call.correction = { charge_nano, difference_nano }
      this.#pay(call, difference_nano)
      return "applied"
    })
  }

  expire(ids: readonly string[]): boolean[] {
    return ids.map((id) => {
      const call = this.calls.get(id)
      if (call === undefined || call.end !== null) return false
      const charge_nano = this.checkpoints.get(id) ?? 0n
      call.end = { outcome: "expired", charge_nano }
      this.#pay(call, charge_nano)
      return true
    })
  }

  checkpoint(checkpoints: readonly Checkpoint[]): void {
    for (const { id, charge_nano } of checkpoints) this.checkpoints.set(id, charge_nano)
  }

  restore(holds: readonly Hold[]): void {
    for (const hold of holds) if (!this.calls.has(hold.id)) this.#add(hold)
  }

  #add({ id, account_id, amount_nano }: Hold): void {
    this.calls.set(id, { account_id, amount_nano, end: null, correction: null })
  }

  #pay({ account_id }: AuditedCall, nano: bigint): void {
    this.balances.set(account_id, this.balance(account_id) - nano)
  }
}

function isSame(call: AuditedCall, { account_id, amount_nano }: Hold): boolean {
  return call.end === null && call.account_id === account_id && call.amount_nano === amount_nano
}

function byAmountAndId(one: Hold, other: Hold): number {
  if (one.amount_nano !== other.amount_nano) return one.amount_nano < other.amount_nano ? -1 : 1
  return one.id < other.id ? -1 : 1
}
