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
    try {
      const result = await this.#ask(hold, performance.now() + ANSWER_MS)
      if (result.outcome === "held") this.#used.note(hold.key_id)
      else this.#outstanding.delete(hold.id)
      return result
    } catch (error) {
      if (error instanceof Withdrawn && error.reached) this.#bury(hold)
      else this.#outstanding.delete(hold.id)
      throw failureOf(error)
    }
  }

  stop(): void {
    this.#lanes.stop()
    this.#tombstones.stop()
  }

  async #ask(hold: Hold, until: number): Promise<HoldResult> {
    const result = await this.#lanes.of(hold.account_id).ask(hold, until - performance.now())
    switch (result.outcome) {
      case "gateway_dead":
        await this.#succeed(result.gateway_id, until)
        return this.#ask(hold, until)
      case "conflict":
        return this.#ask(hold, until)
      case "closed":
        throw new GatewayError("ledger_unavailable")
      default:
        return result
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
      if (!(error instanceof Withdrawn)) throw error
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
