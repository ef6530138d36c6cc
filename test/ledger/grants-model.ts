/**
 * Credit grants as D95 describes them, one event after another, for comparison with the ledger. Written without its statements: each
 * charge is drawn when its call ends, and each expiry is applied at its time.
 */

export interface ModelGrant {
  readonly id: string
  readonly priority: number
  readonly expires_h: number | null
  readonly starts_h: number
  state: "later" | "open" | "over"
  left: number
  expired: number
  voided: number
  ends_as: "expired" | "voided"
  drawn: number
  /** The step of its last draw, or of the last return to it. */
  drawn_at: number
}

interface Pin {
  readonly grant: ModelGrant
  readonly ends_as: "expired" | "voided"
  readonly amount: number
}

interface ModelCall {
  readonly id: string
  readonly held: number
  readonly pins: Pin[]
}

/** No two credits are made at the same time. */
const MOMENT_H = 0.001

export class GrantsModel {
  readonly grants: ModelGrant[] = []
  /** Open calls, the oldest first. */
  readonly calls: ModelCall[] = []
  readonly limit: number
  #now_h = 0
  debt = 0
  step = 0

  constructor(limit: number) {
    this.limit = limit
  }

  get balance(): number {
    const open = this.#drawable().reduce((sum, { left }) => sum + left, 0)
    return open + this.calls.reduce((sum, call) => sum + pinnedBy(call), 0) - this.debt
  }

  get held(): number {
    return this.calls.reduce((sum, { held }) => sum + held, 0)
  }

  get available(): number {
    return this.balance + this.limit - this.held
  }

  credit(id: string, amount: number, priority: number, starts_in: number, lasts: number | null): void {
    const starts_h = this.#now_h + starts_in + this.grants.length * MOMENT_H
    const grant: ModelGrant = {
      id,
      priority,
      starts_h,
      expires_h: lasts === null ? null : starts_h + lasts,
      state: "later",
      left: amount,
      expired: 0,
      voided: 0,
      ends_as: "expired",
      drawn: 0,
      drawn_at: 0,
    }
    this.grants.push(grant)
    if (starts_in === 0) this.#start(grant)
  }

  hold(id: string, held: number): void {
    this.calls.push({ id, held, pins: [] })
    this.calls.sort((one, other) => (one.id < other.id ? -1 : 1))
  }

  end(id: string, charge: number): void {
    const at = this.calls.findIndex((call) => call.id === id)
    const [call] = this.calls.splice(at, 1)
    let rest = charge
    for (const { grant, ends_as, amount } of call?.pins ?? []) {
      const drawn = Math.min(amount, rest)
      rest -= drawn
      this.#draw(grant, drawn)
      grant[ends_as] += amount - drawn
    }
    this.spend(rest)
  }

  spend(amount: number): void {
    let rest = amount
    for (const grant of this.#drawable()) {
      const drawn = Math.min(grant.left, rest)
      grant.left -= drawn
      rest -= drawn
      this.#draw(grant, drawn)
    }
    this.debt += rest
  }

  /** Money of a call that was charged too much: it pays a debt, and then returns to the grants that were drawn last. */
  giveBack(amount: number): void {
    const paid = Math.min(amount, this.debt)
    this.debt -= paid
    let rest = amount - paid
    const last = this.grants
      .filter(({ drawn }) => drawn > 0)
      .sort((one, other) => other.drawn_at - one.drawn_at || this.#compare(other, one))
    for (const grant of last) {
      const given = Math.min(grant.drawn, rest)
      if (given === 0) return
      rest -= given
      this.#draw(grant, -given)
      if (grant.state === "open") grant.left += given
      else grant[grant.ends_as] += given
    }
  }

  #draw(grant: ModelGrant, amount: number): void {
    if (amount === 0) return
    grant.drawn += amount
    grant.drawn_at = this.step
  }

  advance(hours: number): void {
    this.#now_h += hours
    for (;;) {
      const due = this.grants
        .filter((grant) => timeOf(grant) <= this.#now_h + 0.5)
        .sort(
          (one, other) => timeOf(one) - timeOf(other) || rank(one) - rank(other) || this.#compare(one, other),
        )
      const [next] = due
      if (next === undefined) return
      if (next.state === "later") this.#start(next)
      else this.#over(next, "expired")
    }
  }

  void(grant: ModelGrant): void {
    if (grant.state === "open" && grant.left > 0) this.#over(grant, "voided")
    else if (grant.state === "later") {
      grant.voided = grant.left
      grant.left = 0
      grant.state = "over"
    }
  }

  leftOf(grant: ModelGrant): number {
    const pins = this.calls.flatMap((call) => call.pins)
    return grant.left + pins.filter((pin) => pin.grant === grant).reduce((sum, { amount }) => sum + amount, 0)
  }

  #start(grant: ModelGrant): void {
    grant.state = "open"
    const paid = Math.min(grant.left, this.debt)
    grant.left -= paid
    this.debt -= paid
    this.#draw(grant, paid)
  }

  /** The calls hold the drawable money in its order, from the oldest call on. What no call holds of the grant is gone. */
  #over(grant: ModelGrant, ends_as: Pin["ends_as"]): void {
    const line = this.#drawable().flatMap((each) => Array.from({ length: each.left }, () => each))
    let at = 0
    for (const call of this.calls) {
      const share = line.slice(at, at + call.held - pinnedBy(call))
      at += share.length
      const amount = share.filter((each) => each === grant).length
      if (amount > 0) call.pins.push({ grant, ends_as, amount })
      grant.left -= amount
    }
    grant.ends_as = ends_as
    grant[ends_as] += grant.left
    grant.left = 0
    grant.state = "over"
  }

  #drawable(): ModelGrant[] {
    return this.grants.filter(({ state }) => state === "open").sort((one, other) => this.#compare(one, other))
  }

  #compare(one: ModelGrant, other: ModelGrant): number {
    const until = ({ expires_h }: ModelGrant) => expires_h ?? Number.MAX_SAFE_INTEGER
    return (
      one.priority - other.priority ||
      until(one) - until(other) ||
      this.grants.indexOf(one) - this.grants.indexOf(other)
    )
  }
}

const pinnedBy = (call: ModelCall) => call.pins.reduce((sum, { amount }) => sum + amount, 0)

/** When the grant changes next. */
function timeOf({ state, starts_h, expires_h }: ModelGrant): number {
  if (state === "later") return starts_h
  return state === "open" && expires_h !== null ? expires_h : Number.POSITIVE_INFINITY
}

const rank = ({ state }: ModelGrant) => (state === "later" ? 0 : 1)
