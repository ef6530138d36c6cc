import { describe, expect, test } from "bun:test"
import { join } from "node:path"
import fc from "fast-check"
import { audit } from "../../src/ledger/archive/audit.ts"
import { Lease } from "../../src/ledger/money/lease.ts"
import { Sweeper } from "../../src/ledger/queue/sweep.ts"
import { linesOf, type Part, type Played, Player } from "./player.ts"
import { type Account, call, LONG_LEASE, nth, standings, testDatabase, violations } from "./test-database.ts"

/**
 * Random histories, all at once: the ledger is exact at every instant, and every call is in the end where it can be.
 */

/** Sweeps while others play. */

const db = await testDatabase()
const lease = new Lease(db.connection(), LONG_LEASE)
const sweeper = new Sweeper(db.connection(), lease, () => {})

describe("all at once: two gateways here and one in another process, replays, sweeps and deaths", () => {
  const end = fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: 0, max: 20 }) },
    { weight: 1, arbitrary: fc.constant(null) },
  )
  const part = fc.record({
    account: fc.nat(2),
    amount_nano: fc.integer({ min: 20, max: 40 }),
    checkpoint_nano: fc.integer({ min: 0, max: 20 }),
    // Nobody ends it, one does, or several do at once.
    ends: fc.array(end, { minLength: 0, maxLength: 3 }),
  })
  const scripts = fc.tuple(
    ...Array.from({ length: 3 }, () => fc.array(part, { minLength: 20, maxLength: 60 })),
  )

  test.each([
    ["nobody dies: no balance is ever below what is held", false],
    ["gateways are declared dead while they work: late settlements count once", true],
  ])("%s", async (_, deaths) => {
    const own = [
      await Player.start(db.address, await db.folder()),
      await Player.start(db.address, await db.folder()),
    ]
    const other = await otherProcess()
    const watch = observe(!deaths)
    const stop = sweeping(deaths)
    try {
      await fc.assert(
        fc.asyncProperty(scripts, async (drawn) => {
          const accounts = await Promise.all([900n, 300n, 60n].map((nano) => db.account(nano)))
          const [first, second, third] = drawn.map((script) => script.map((one) => partOf(one, accounts)))
          if (first === undefined || second === undefined || third === undefined)
            throw new Error("three play")
          const played = await Promise.all([
            nth(own, 0).play(first),
            nth(own, 1).play(second),
            other.play(third),
          ])
          const ended = played.flatMap((calls, who) =>
            calls.filter((_, at) => endsOf(drawn, who, at).length > 0),
          )
          const ids = ended.filter(({ outcome }) => outcome === "held").map(({ id }) => id)
          await Promise.all([...own.map((player) => player.replay(ids)), other.replay(ids)])
          await sweepAll()
          await Promise.all(played.map((calls, who) => check(calls, nth([first, second, third], who))))
        }),
        { numRuns: 5, endOnFailure: true },
      )
    } finally {
      await stop()
      const { snapshots, wrong } = await watch()
      expect(wrong).toEqual([])
      expect(snapshots).toBeGreaterThan(10)
      await Promise.all([...own.map((player) => player.stop()), other.stop()])
    }
    expect((await standings(db.sql)).every(({ held_nano }) => held_nano === 0n)).toBe(true)
    // The players charge what their tokens do not cost.
    const { violations: found } = await audit(db.database.operators)
    expect(found.filter(({ kind }) => kind !== "charge")).toEqual([])
  })

  const endsOf = (drawn: readonly (readonly { ends: unknown[] }[])[], who: number, at: number) =>
    nth(nth(drawn, who), at).ends

  function partOf(
    drawn: { account: number; amount_nano: number; checkpoint_nano: number; ends: (number | null)[] },
    accounts: Account[],
  ): Part {
    return {
      account: nth(accounts, drawn.account),
      amount_nano: String(drawn.amount_nano),
      checkpoint_nano: String(drawn.checkpoint_nano),
      ends: drawn.ends.map((charge) => (charge === null ? null : { charge_nano: String(charge) })),
    }
  }

  /** Every call is where it can be, given what was said about it. */
  async function check(played: readonly Played[], parts: readonly Part[]): Promise<void> {
    for (const [at, { id, outcome }] of played.entries()) {
      const row = await call(db.sql, id)
      if (outcome === "insufficient_balance") expect(row).toBeNull()
      else
        expect(allowed(outcome, nth(parts, at))).toContain(
          row === null ? "none" : `${row.state} ${row.charge_nano}`,
        )
    }
  }

  function allowed(outcome: string, { ends, checkpoint_nano }: Part): string[] {
    const expiry = ["expired 0", `expired ${checkpoint_nano}`]
    if (outcome !== "held") return ["none", "released 0", "expired 0"]
    const settlements = ends.flatMap((end) => (end === null ? [] : [`settled ${end.charge_nano}`]))
    if (ends.length === 0) return expiry
    const releases = ends.includes(null) ? ["released 0"] : []
    // After an expiry a release changes nothing, and a replay in the same race may come to settle.
    return [...settlements, ...releases, ...(settlements.length === 0 ? [...expiry, "settled 1"] : [])]
  }

  /** Looks at the ledger as fast as it can, each time in one snapshot. */
  function observe(strict: boolean) {
    let over = false
    let snapshots = 0
    const wrong = new Set<string>()
    const watching = (async () => {
      while (!over) {
        for (const line of await violations(db.sql, { overdrawn: !strict })) wrong.add(line)
        snapshots += 1
      }
    })()
    return async () => {
      over = true
      await watching
      return { snapshots, wrong: [...wrong] }
    }
  }

  /** Sweeps all the time; with `deaths` somebody is declared dead now and then. */
  function sweeping(deaths: boolean) {
    let over = false
    const done = (async () => {
      while (!over) {
        if (deaths) {
          await db.sql`UPDATE tollgate.gateways SET dead_at = now()
            WHERE id = (SELECT id FROM tollgate.gateways WHERE dead_at IS NULL ORDER BY random() LIMIT 1)`
        }
        await sweeper.run()
      }
    })()
    return async () => {
      over = true
      await done
    }
  }

  /** All rows of this test's gateways are declared dead; the players go on under new ones. */
  async function sweepAll(): Promise<void> {
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE dead_at IS NULL`
    for (;;) {
      await sweeper.run()
      const [row] = await db.sql`SELECT count(*)::int AS open FROM tollgate.calls WHERE state = 'open'`
      if (row?.open === 0) return
    }
  }

  async function otherProcess() {
    const child = Bun.spawn({
      cmd: [process.execPath, join(import.meta.dir, "player.ts")],
      stdin: "pipe",
      stdout: "pipe",
    })
    const lines = linesOf(child.stdout)
    const ask = async (order: unknown) => {
      child.stdin.write(`${JSON.stringify(order)}\n`)
      child.stdin.flush()
      return JSON.parse((await lines.next()).value ?? "null")
    }
    await ask({ start: { address: db.address, data_dir: await db.folder() } })
    return {
      play: (play: readonly Part[]): Promise<Played[]> => ask({ play }),
      replay: (replay: readonly string[]): Promise<void> => ask({ replay }),
      stop: async () => {
        child.kill("SIGKILL")
        await child.exited
      },
    }
  }
})
