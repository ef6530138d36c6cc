import { expect, test } from "bun:test"
import { countedKinds, recordOf } from "../../src/kinds.ts"
import { type GroupSums, usageOf } from "../../src/ledger/reports/usage-sums.ts"
import { inFormat } from "../../src/routes/list-formats.ts"
import { pageBody, usageReport } from "../../src/routes/record-bodies.ts"
import { usageRange } from "../../src/wire/usage-report.ts"

/** D105: long lists are made in parts, and other requests get their turn between them. */

const GROUPS = 50_000
const TURNS = 5

/** What `work` answers, and how many turns the event loop had meanwhile. */
async function turnsIn<Answer>(work: () => Promise<Answer>): Promise<[answer: Answer, turns: number]> {
  let turns = 0
  const count = () => {
    turns += 1
    next = setImmediate(count)
  }
  let next = setImmediate(count)
  const answer = await work()
  clearImmediate(next)
  return [answer, turns]
}

const sums = {
  calls: 1,
  abandoned: 0,
  prompt_tokens: 2,
  cached_tokens: 0,
  completion_tokens: 3,
  charge_nano: 1n,
  profit_nano: 0n,
  provider_cost_nano: 0n,
  overage_nano: 0n,
  buckets: recordOf(countedKinds, () => 0),
}
const groups: readonly GroupSums[] = Array.from({ length: GROUPS }, (_, at) => ({
  ...sums,
  values: [`${at}`],
}))
const range = usageRange({ by: ["session"] }, new Date())

test("D105 a report gives others their turn while it is named and printed", async () => {
  const source = { sum: async () => ({ groups, left_out: 0, total: sums }), names: async () => new Map() }
  const [named, turns] = await turnsIn(() => usageOf([source], range))
  expect(turns).toBeGreaterThan(1)
  const [report, more] = await turnsIn(() => usageReport(range, named))
  expect(more).toBeGreaterThan(TURNS)
  expect(report.data.map(({ group }) => group)).toEqual(groups.map(({ values }) => String(values[0])))
})

test("D105 so does a page of entries", async () => {
  const slow = (entry: number) => {
    const until_ms = performance.now() + 2
    while (performance.now() < until_ms);
    return entry
  }
  const entries = Array.from({ length: 50 }, (_, at) => at)
  const [page, turns] = await turnsIn(() => pageBody({ data: entries, next: null }, slow))
  expect(page.data).toEqual(entries)
  expect(turns).toBeGreaterThan(TURNS)
})

test("D105 so does CSV, which needs the names of all entries before the first", async () => {
  const data = [...groups.map(({ calls }) => ({ calls })), { last: 1 }]
  const answer = inFormat({
    request: new Request("http://localhost/usage?format=csv"),
    responseValue: { data },
  })
  const reader = answer?.body?.getReader()
  const [first, turns] = await turnsIn(async () => new TextDecoder().decode((await reader?.read())?.value))
  expect(first).toBe("calls,last\n")
  expect(turns).toBeGreaterThan(GROUPS / 1_000)
  await reader?.cancel()
})
