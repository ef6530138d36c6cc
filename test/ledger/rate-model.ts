/**
 * An independent model of budgets per minute (D99). It plays every step of 2 s by itself, over a list of the calls. Amounts are thirtieths of
 * a unit, times are milliseconds.
 */

const STEP_MS = 2_000
const KEPT_MS = 5_000

export interface RateCall {
  readonly id: string
  readonly key: string
  /** By which the ledger orders a batch. */
  readonly nano: bigint
  readonly tokens: number
  at: number
  /** What it counts now: what it holds while it is open, then what it used. */
  counts: { readonly tokens: number; readonly requests: number }
}

interface Part {
  readonly step: number
  left: number
}

export class ModelRate {
  readonly id: string
  readonly key: string | null
  readonly unit: "tokens" | "requests"
  amount: number
  waiting: { readonly amount: number; readonly until: number } | null = null
  readonly #calls: RateCall[] = []
  #parts: Part[] = []
  #step: number

  constructor(id: string, key: string | null, unit: ModelRate["unit"], amount: number, now: number) {
    this.id = id
    this.key = key
    this.unit = unit
    this.amount = amount
    this.#step = stepOf(now)
  }

  get level(): number {
    return this.#parts.reduce((sum, { left }) => sum + left, 0)
  }

  needs({ tokens }: Pick<RateCall, "tokens">): number {
    return this.unit === "tokens" ? tokens : 1
  }

  concerns({ key }: RateCall): boolean {
    return this.key === null || this.key === key
  }

  /** Lets everything refill that has until then. */
  advance(now: number): void {
    for (; this.#step < stepOf(now); this.#step += 1) {
      let refill = this.amount
      for (const part of this.#parts) {
        if (part.step === this.#step) continue
        const taken = Math.min(part.left, refill)
        part.left -= taken
        refill -= taken
      }
      this.#parts = this.#parts.filter(({ left }) => left > 0)
    }
    if (this.waiting !== null && this.waiting.until <= now) this.waiting = null
  }

  take(call: RateCall): void {
    this.#calls.push(call)
    this.#parts.push({ step: this.#step, left: 30 * this.needs(call) })
  }

  /** The time at which this much has refilled; without an amount, a minute later. */
  refilledAt(thirtieths: number, now: number): number {
    if (this.amount === 0 && thirtieths > 0) return now + 60_000
    const later = new ModelRate("", null, this.unit, this.amount, this.#step * STEP_MS)
    // What others will take too is as if it were the newest.
    later.#parts = [
      ...this.#parts.map((part) => ({ ...part })),
      { step: this.#step, left: Math.max(thirtieths - this.level, 0) },
    ]
    const before = later.level
    while (before - later.level < thirtieths) later.advance((later.#step + 1) * STEP_MS)
    return later.#step * STEP_MS
  }

  fitsAt(needed: number, now: number): number {
    const kept = this.waiting !== null && this.waiting.amount !== needed ? this.waiting.amount : 0
    return this.refilledAt(this.level + 30 * (needed + kept - this.amount), now)
  }

  wait(needed: number, now: number): void {
    this.waiting ??= { amount: needed, until: this.fitsAt(needed, now) + KEPT_MS }
  }

  /** Counts a call at what it used: what has refilled of its step is not given back. */
  end(call: RateCall, counts: RateCall["counts"]): void {
    if (!this.#calls.includes(call)) return
    let change = 30 * (counts[this.unit] - call.counts[this.unit])
    const of = this.#parts.filter(({ step }) => step === stepOf(call.at))
    if (change > 0) this.#parts.unshift({ step: stepOf(call.at), left: change })
    for (const part of of) {
      const given = Math.min(part.left, Math.max(-change, 0))
      part.left -= given
      change += given
    }
  }

  /** True if a leaky bucket of the amount, that leaks evenly, never overflows by what the calls count now. */
  isKept(): boolean {
    let [level, at] = [0, 0]
    for (const call of this.#calls) {
      level = Math.max(0, level - this.amount * (call.at - at)) + 60_000 * call.counts[this.unit]
      at = call.at
      if (level > 60_000 * this.amount) return false
    }
    return true
  }
}

function stepOf(at: number): number {
  return Math.floor(at / STEP_MS)
}

/** Admits a batch as the ledger does. Returns the calls that are held. */
export function admit(
  rates: readonly ModelRate[],
  calls: readonly RateCall[],
  now: number,
): ReadonlySet<string> {
  for (const rate of rates) rate.advance(now)
  const kept = new Map(rates.map((rate) => [rate, rate.waiting]))
  const others = new Map(rates.map((rate) => [rate, rate.level]))
  const held = new Set<string>()
  const inOrder = calls.toSorted((one, other) =>
    one.nano === other.nano ? (one.id < other.id ? -1 : 1) : one.nano < other.nano ? -1 : 1,
  )
  for (const call of inOrder) {
    const concerned = rates.filter((rate) => rate.concerns(call))
    const fits = concerned.every((rate) => {
      const needed = rate.needs(call)
      const waiting = kept.get(rate)?.amount
      const is_free = waiting === undefined || waiting === needed
      const beside = (others.get(rate) ?? 0) + 30 * (needed + (waiting ?? 0))
      return rate.level + 30 * needed <= 30 * rate.amount && (is_free || beside <= 30 * rate.amount)
    })
    if (!fits) continue
    held.add(call.id)
    call.at = now
    for (const rate of concerned) {
      rate.take(call)
      const needed = rate.needs(call)
      if (kept.get(rate)?.amount === needed) rate.waiting = null
      else others.set(rate, (others.get(rate) ?? 0) + 30 * needed)
    }
  }
  return held
}

/** Keeps room for the refused calls that only have to wait. Returns when each fits; null for one that never does. */
export function keepRoom(rates: readonly ModelRate[], refused: readonly RateCall[], now: number) {
  const waits = new Map<string, number | null>()
  const before = new Map(rates.map((rate) => [rate, rate.waiting]))
  for (const call of refused.toSorted((one, other) => (one.id < other.id ? -1 : 1))) {
    const concerned = rates.filter((rate) => rate.concerns(call))
    const is_too_large = concerned.some((rate) => rate.needs(call) > rate.amount)
    const times = concerned.map((rate) => {
      const { waiting } = rate
      rate.waiting = before.get(rate) ?? null
      const at = is_too_large ? 0 : rate.fitsAt(rate.needs(call), now)
      const is_short = rate.level + 30 * (rate.needs(call) + keptBeside(rate, call) - rate.amount) > 0
      rate.waiting = waiting
      if (!is_too_large && is_short) rate.wait(rate.needs(call), now)
      return is_short ? at : 0
    })
    waits.set(call.id, is_too_large ? null : Math.max(...times))
  }
  return waits
}

function keptBeside(rate: ModelRate, call: RateCall): number {
  return rate.waiting !== null && rate.waiting.amount !== rate.needs(call) ? rate.waiting.amount : 0
}
