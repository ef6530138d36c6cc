import { GatewayError } from "../errors.ts"
import type { Closings } from "./closings.ts"
import type { Connections } from "./connections.ts"
import { Withdrawn } from "./entry.ts"
import { Lanes } from "./lanes.ts"
import type { LastUsed } from "./last-used.ts"
import type { Lease } from "./lease.ts"
import { ANSWER_MS, LANE_LIMIT, LANES } from "./limits.ts"
import type { Outstanding } from "./outstanding.ts"
import type { Hold, HoldResult } from "./reservation.ts"
import { type Reserved, reserveBatch } from "./reserve.ts"
import { type Buried, buryBatch, releaseOf } from "./tombstone.ts"
import { codeOf } from "./trouble.ts"

/** A reserve over all times that it is asked. */
interface Asking {
  readonly hold: Hold
  readonly until: number
  /** Whether a statement that did not answer for it may have done it, or may still do it. */
  uncertain: boolean
}

/** Where calls come to be held. */
export class Holds {
  readonly #lanes: Lanes<Hold, Reserved>
  readonly #tombstones: Lanes<Hold, Buried>
  readonly #lease: Lease
  readonly #outstanding: Outstanding
  readonly #closings: Closings
  readonly #used: LastUsed
  readonly #burials = new Set<Promise<void>>()

  constructor(
    connections: Connections,
    lease: Lease,
    outstanding: Outstanding,
    closings: Closings,
    used: LastUsed,
  ) {
    this.#lease = lease
    this.#outstanding = outstanding
    this.#closings = closings
    this.#used = used
    this.#lanes = new Lanes(
      connections.several(LANES),
      {
        accountOf: (hold) => hold.account_id,
        run: (connection, holds, patience_ms) =>
          reserveBatch(connection, lease.gateway_id, holds, patience_ms),
      },
      LANE_LIMIT,
    )
    this.#tombstones = new Lanes(connections.several(1), {
      accountOf: (hold) => hold.account_id,
      run: (connection, holds, patience_ms) => buryBatch(connection, lease.gateway_id, holds, patience_ms),
    })
  }

  get depth(): number {
    return this.#lanes.depth
  }

  /** Ids that are still being closed behind a refusal. */
  get burials(): readonly Promise<void>[] {
    return [...this.#burials]
  }

  /**
   * Holds or says why not, within 2 s. A reserve that may have been done although its caller is refused is closed
   * behind it (D27); until then the call counts as open.
   */
  async reserve(hold: Hold): Promise<HoldResult> {
    if (hold.id < this.#outstanding.floor) throw new GatewayError("ledger_unavailable")
    this.#outstanding.add(hold.id, hold.account_id)
    const asking = { hold, until: performance.now() + ANSWER_MS, uncertain: false }
    try {
      const result = await this.#answer(asking)
      if (result.outcome === "held") this.#used.note(hold.key_id)
      else this.#drop(asking)
      return result
    } catch (error) {
      this.#drop(asking)
      throw failureOf(error)
    }
  }

  stop(): void {
    this.#lanes.stop()
    this.#tombstones.stop()
  }

  /**
   * An attempt that commits while the next one waits for its account is not in the snapshot of that one, but its hold
   * is in the balance, or counts under the key's limit: a newer snapshot tells a reserve that met its own hold from one
   * that has too little (D46), and one that met the call which has just taken its `Idempotency-Key` (D43).
   */
  async #answer(asking: Asking): Promise<HoldResult> {
    const result = await this.#ask(asking)
    const is_short = result.outcome === "insufficient_balance" || result.outcome === "spending_limit_reached"
    const own = is_short && (asking.uncertain || asking.hold.idempotency !== null)
    return own ? this.#ask(asking) : result
  }

  async #ask(asking: Asking): Promise<HoldResult> {
    const result = await this.#askOnce(asking)
    switch (result.outcome) {
      case "gateway_dead":
        await this.#succeed(result.gateway_id, asking.until)
        return this.#ask(asking)
      case "conflict":
        return this.#ask(asking)
      case "closed":
        throw new GatewayError("ledger_unavailable")
      default:
        return result
    }
  }

  async #askOnce(asking: Asking): Promise<Reserved> {
    const lane = this.#lanes.of(asking.hold.account_id)
    const entry = lane.enter(asking.hold, asking.uncertain)
    try {
      return await lane.outcomeOf(entry, asking.until - performance.now())
    } finally {
      asking.uncertain = entry.uncertain
    }
  }

  /**
   * Nothing was held under the row of a gateway that was declared dead: once there is a new row, it is asked again
   * (D35).
   */
  async #succeed(dead_id: string, until: number): Promise<void> {
    const overdue = Promise.withResolvers<void>()
    const timer = setTimeout(overdue.resolve, until - performance.now())
    await Promise.race([
      this.#lease.succeed(dead_id, this.#outstanding.floor).catch(() => {}),
      overdue.promise,
    ])
    clearTimeout(timer)
  }

  /** The reserve did not end as held. */
  #drop({ hold, uncertain }: Asking): void {
    if (uncertain) this.#bury(hold)
    else this.#outstanding.delete(hold.id)
  }

  #bury(hold: Hold): void {
    const burial: Promise<void> = this.#close(hold).finally(() => this.#burials.delete(burial))
    this.#burials.add(burial)
  }

  /** Ends when the id is closed, or when the books of this process are: then the reservation expires. */
  async #close(hold: Hold): Promise<void> {
    try {
      const buried = await this.#tombstones.of(hold.account_id).enter(hold).outcome
      if (buried === "won") await this.#closings.close(releaseOf(hold.id))
      else this.#outstanding.delete(hold.id)
    } catch (error) {
      // Books that refuse the tombstone for its data have refused the hold for it too.
      if (!(error instanceof Withdrawn)) this.#outstanding.delete(hold.id)
    }
  }
}

/** The server's own error stays inside: it may show the hold. */
function failureOf(error: unknown): Error {
  if (error instanceof GatewayError) return error
  if (error instanceof Withdrawn)
    return new GatewayError("ledger_unavailable", { cause: codeOf(error.cause) })
  return new Error(`the books refuse this hold: ${codeOf(error)}`)
}
