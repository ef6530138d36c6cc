import { openDatabase } from "../../src/ledger/database/database.ts"
import { DatabaseLedger } from "../../src/ledger/database-ledger.ts"
import type { Checkpoint } from "../../src/ledger/entries.ts"
import { type Account, checkpointOf, holdOf, RENEWING, released, settled, silent } from "./test-database.ts"

/**
 * A history is played by several processes; this file is one of them when it is run, and what all of them do when it is
 * imported.
 */

/** One call: what it holds, and everything that is said about its end. Nobody ends it when that is nothing. */
export interface Part {
  readonly account: Account
  readonly amount_nano: string
  readonly checkpoint_nano: string
  readonly ends: readonly Saying[]
}

/** A settlement by this charge, or a release. */
export type Saying = { readonly charge_nano: string } | null

export interface Played {
  readonly id: string
  readonly outcome: string
}

/** How many calls a player has in flight. */
const WIDTH = 12

export class Player {
  readonly #ledger: DatabaseLedger
  readonly #running: Map<string, Checkpoint>

  private constructor(ledger: DatabaseLedger, running: Map<string, Checkpoint>) {
    this.#ledger = ledger
    this.#running = running
  }

  static async start(
    address: { url: string } | { socket_path: string; user: string; database: string },
    data_dir: string,
  ) {
    const running = new Map<string, Checkpoint>()
    const ledger = await DatabaseLedger.open({
      database: await openDatabase(address),
      data_dir,
      lease: RENEWING,
      log: silent,
      checkpoints: () => [...running.values()],
    })
    return new Player(ledger, running)
  }

  async play(parts: readonly Part[]): Promise<Played[]> {
    const played: Played[] = []
    const left = parts.entries()
    const one = async () => {
      for (const [at, part] of left) played[at] = await this.#playOne(part)
    }
    await Promise.all(Array.from({ length: WIDTH }, one))
    return played
  }

  /** Says again how calls of anybody ended, each with another charge. */
  async replay(ids: readonly string[]): Promise<void> {
    await Promise.all(ids.map((id, at) => this.#ledger.end(at % 2 === 0 ? settled(id, 1n) : released(id))))
  }

  stop(): Promise<void> {
    return this.#ledger.stop()
  }

  async #playOne({ account, amount_nano, checkpoint_nano, ends }: Part): Promise<Played> {
    const hold = holdOf(account, BigInt(amount_nano))
    const outcome = await this.#ledger.hold(hold).then(
      (result) => result.outcome,
      (error: unknown) => (error instanceof Error ? error.name : ""),
    )
    const { id } = hold
    if (outcome !== "held") return { id, outcome }
    this.#running.set(id, checkpointOf(id, BigInt(checkpoint_nano)))
    await Promise.all(
      ends.map((end) => this.#ledger.end(end === null ? released(id) : settled(id, BigInt(end.charge_nano)))),
    )
    if (ends.length > 0) this.#running.delete(id)
    return { id, outcome }
  }
}

export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ""
  for await (const bytes of stream) {
    rest += decoder.decode(bytes, { stream: true })
    const lines = rest.split("\n")
    rest = lines.pop() ?? ""
    yield* lines
  }
}

/** A process for a player: a line says what to do, a line answers. */
if (import.meta.main) {
  let player: Player | null = null
  for await (const line of linesOf(Bun.stdin.stream())) {
    const order = JSON.parse(line)
    if (order.start !== undefined) player = await Player.start(order.start.address, order.start.data_dir)
    if (order.play !== undefined) console.log(JSON.stringify(await player?.play(order.play)))
    else console.log(JSON.stringify((await player?.replay(order.replay ?? [])) ?? null))
  }
  // Its ledger would keep a process alive whose test is gone.
  process.exit(0)
}
