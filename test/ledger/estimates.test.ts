import { beforeEach, describe, expect, spyOn, test } from "bun:test"
import fc from "fast-check"
import type { DatabaseLedger } from "../../src/ledger/database-ledger.ts"
import type { EstimateSample } from "../../src/ledger/entries.ts"
import { addEstimates, EstimateQueue, KEPT_DAYS, readEstimates } from "../../src/ledger/queue/estimates.ts"
import { until } from "../support/gateway.ts"
import { thrown } from "../support/thrown.ts"
import { testDatabase } from "./test-database.ts"

const db = await testDatabase()
beforeEach(async () => {
  await db.sql`DELETE FROM tollgate.estimates`
})

const sample: EstimateSample = {
  model: `it's "a" model, {1}`,
  operation: "chat",
  prompt_bytes: 400,
  prompt_tokens: 100,
  output_bytes: 120,
  output_tokens: 50,
  reasoning_tokens: 20,
  bytes_per_token: 4,
  hidden_output: 0,
}

async function read(days = KEPT_DAYS, model?: string) {
  return addEstimates([await readEstimates(db.database.operators, days, model)])
}

function summed(samples: readonly EstimateSample[]) {
  const sum = (
    name: "prompt_bytes" | "prompt_tokens" | "output_bytes" | "output_tokens" | "reasoning_tokens",
  ) => samples.reduce((total, one) => total + one[name], 0)
  return {
    calls: samples.length,
    prompt_bytes: sum("prompt_bytes"),
    prompt_tokens: sum("prompt_tokens"),
    output_bytes: sum("output_bytes"),
    output_tokens: sum("output_tokens"),
    reasoning_tokens: sum("reasoning_tokens"),
    reasoning_calls: samples.filter(({ reasoning_tokens }) => reasoning_tokens > 0).length,
  }
}

describe("D92 sums about estimates", () => {
  test("of several processes, in any order, are the sums of all calls", async () => {
    const tokens = fc.nat(1_000_000)
    const calls = fc.record({
      ...{ prompt_bytes: tokens, prompt_tokens: tokens, output_bytes: tokens, output_tokens: tokens },
      reasoning_tokens: fc.oneof(fc.constant(0), tokens),
      model: fc.constantFrom("one", "two"),
      operation: fc.constantFrom("chat", "responses"),
    })
    const process = fc.array(fc.oneof({ weight: 5, arbitrary: calls }, fc.constant("write" as const)))
    const connection = db.connection()
    await fc.assert(
      fc.asyncProperty(fc.array(process, { minLength: 1, maxLength: 3 }), async (processes) => {
        await db.sql`DELETE FROM tollgate.estimates`
        const all: EstimateSample[] = []
        await Promise.all(
          processes.map(async (steps) => {
            const queue = new EstimateQueue()
            for (const step of steps) {
              if (step === "write") await queue.write(connection, 5_000)
              else {
                const one = { ...sample, ...step }
                all.push(one)
                queue.add(one)
              }
            }
            await queue.write(connection, 5_000)
          }),
        )
        const groups = Map.groupBy(all, ({ model, operation }) => `${model} ${operation}`)
        const found = new Map(
          (await read()).map(({ model, operation, ...sums }) => [`${model} ${operation}`, sums]),
        )
        expect(found.size).toBe(groups.size)
        for (const [name, group] of groups) expect(found.get(name)).toMatchObject(summed(group))
      }),
      { numRuns: 20 },
    )
  })

  test("have the settings of the last call", async () => {
    const queue = new EstimateQueue()
    const connection = db.connection()
    queue.add(sample)
    await queue.write(connection, 5_000)
    queue.add({ ...sample, bytes_per_token: 3.7, hidden_output: 900 })
    await queue.write(connection, 5_000)
    const settings = { model: sample.model, calls: 2, bytes_per_token: 3.7, hidden_output: 900 }
    expect(await read()).toMatchObject([settings])
    expect(await read(1, sample.model)).toMatchObject([settings])
    expect(await read(1, "another")).toEqual([])
  })

  test("are kept for 30 days, and read for as many as are asked for", async () => {
    const queue = new EstimateQueue()
    const connection = db.connection()
    queue.add(sample)
    await queue.write(connection, 5_000)
    for (const age of [1, 6, 7, KEPT_DAYS - 1, KEPT_DAYS])
      await db.sql`INSERT INTO tollgate.estimates
        SELECT day - ${age}::int, 'old', operation, calls, prompt_bytes, prompt_tokens, output_bytes, output_tokens,
          reasoning_tokens, reasoning_calls, 2, hidden_output FROM tollgate.estimates WHERE model = ${sample.model}`
    const callsIn = async (days: number) => (await read(days, "old")).map(({ calls }) => calls)
    expect([await callsIn(1), await callsIn(2), await callsIn(7), await callsIn(8)]).toEqual([
      [],
      [1],
      [2],
      [3],
    ])
    queue.add(sample)
    await queue.write(connection, 5_000)
    expect(await db.sql`SELECT FROM tollgate.estimates WHERE model = 'old'`).toHaveLength(4)
    expect(await read(1)).toMatchObject([{ calls: 2, bytes_per_token: 4 }])
  })

  test("of several shards are added, with the latest settings (D74)", async () => {
    const sums = { ...sample, calls: 3, reasoning_calls: 3, day: "2026-11-20" }
    const later = { ...sums, day: "2026-11-21", bytes_per_token: 3.7 }
    const other = { ...sums, model: "other", calls: 9 }
    for (const parts of [
      [[sums], [later, other]],
      [[other], [later], [sums]],
    ])
      expect(await addEstimates(parts)).toMatchObject([
        { model: "other", calls: 9, bytes_per_token: 4 },
        { model: sample.model, calls: 6, output_bytes: 240, bytes_per_token: 3.7 },
      ])
  })

  test("a statement that failed is not repeated: its calls could count twice", async () => {
    const queue = new EstimateQueue()
    queue.add(sample)
    const failing = { run: () => Promise.reject(new Error("no answer")) }
    expect(String(await thrown(queue.write(failing, 1)))).toContain("no answer")
    await queue.write(db.connection(), 5_000)
    expect(await read()).toEqual([])
  })
})

describe("D92 the ledger of a process", () => {
  /** A ledger, and its tasks of every minute, for the test to start. */
  async function opened(): Promise<{ ledger: DatabaseLedger; everyMinute: () => void }> {
    const spy = spyOn(globalThis, "setInterval")
    const ledger = await db.ledger()
    const tasks = spy.mock.calls.filter(([, ms]) => ms === 60_000).map(([task]) => task)
    spy.mockRestore()
    return {
      ledger,
      everyMinute: () => {
        for (const task of tasks) if (typeof task === "function") task()
      },
    }
  }

  test("writes what it added once a minute and at its end; a kill loses what came since", async () => {
    const { ledger: killed, everyMinute } = await opened()
    const { ledger: stopped } = await opened()
    for (let calls = 0; calls < 3; calls++) killed.recordEstimate(sample)
    expect(await read()).toEqual([])
    everyMinute()
    await until(read, (rows) => rows[0]?.calls === 3)
    // These are what a kill would lose.
    for (let calls = 0; calls < 5; calls++) killed.recordEstimate(sample)
    for (let calls = 0; calls < 7; calls++) stopped.recordEstimate(sample)
    expect(await read()).toMatchObject([{ calls: 3 }])
    await stopped.stop()
    expect(await read()).toMatchObject([{ calls: 10, output_bytes: 1_200 }])
    await killed.stop()
    expect(await read()).toMatchObject([{ calls: 15 }])
  })

  test("stops as always when they cannot be written", async () => {
    const { ledger } = await opened()
    ledger.recordEstimate({ ...sample, hidden_output: 3_000_000_000 })
    await ledger.stop()
    expect(await read()).toEqual([])
    const leases =
      await db.sql`SELECT FROM tollgate.gateways WHERE id = ${ledger.gateway_id} AND swept_at IS NULL`
    expect(leases).toHaveLength(0)
  })
})
