import { expect, test } from "bun:test"
import { Memory } from "../../src/admission/memory.ts"
import { countedKinds, recordOf } from "../../src/kinds.ts"
import {
  type GroupSums,
  type TakeGroups,
  type UsageSource,
  usageOf,
} from "../../src/ledger/reports/usage-sums.ts"
import { inFormat, rowsFor } from "../../src/routes/list-formats.ts"
import { pageBody, usageReport } from "../../src/routes/record-bodies.ts"
import { faultOf } from "../../src/routes/routing.ts"
import { csvRows } from "../../src/wire/csv.ts"
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
const values = Array.from({ length: GROUPS }, (_, at) => `${at}`).toSorted()
const groups: readonly GroupSums[] = values.map((value) => ({ ...sums, values: [value] }))
const range = usageRange({ by: ["session"] }, new Date())

const names = async () => new Map()
const source: UsageSource = {
  names,
  async read(_range, _most, take) {
    for (let at = 0; at < GROUPS; at += 1_000) await take(groups.slice(at, at + 1_000))
    return { left_out: 0, total: sums }
  },
}
const request = new Request("http://localhost/usage?format=csv")
const memory = () => new Memory(2 ** 28).made("account", { body_bytes: 1, memory_bytes: null })

test("D105 a report gives others their turn while it is added, sorted and printed", async () => {
  const read = (most: number, take: TakeGroups) => usageOf([source, source], range, most, take, 10_000)
  const [answer, turns] = await turnsIn(async () => {
    const body = await usageReport(range, rowsFor(request, memory), read)
    return inFormat(request, body, memory)
  })
  expect(turns).toBeGreaterThan(TURNS)
  const rows = csvRows((await answer?.text()) ?? "") ?? []
  expect(rows.map((row) => row.get("group"))).toEqual(values)
  expect(new Set(rows.map((row) => row.get("calls")))).toEqual(new Set(["2"]))
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

test("D113 a list of many entries is printed in turns, as JSON and CSV, and a part of a dump", async () => {
  const slow = {
    get calls() {
      const until_ms = performance.now() + 0.05
      while (performance.now() < until_ms);
      return 1
    },
  }
  const data = Array.from({ length: 2_000 }, () => slow)
  const body = { from: "x", missing: undefined, data, none: [], next: null }
  for (const format of ["json", "csv"]) {
    const request = new Request(`http://localhost/calls?format=${format}`)
    const [answer, turns] = await turnsIn(() => inFormat(request, body, memory))
    expect([format, turns > TURNS]).toEqual([format, true])
    const text = (await answer?.text()) ?? ""
    if (format === "json") expect(JSON.parse(text)).toEqual(body)
    else expect(csvRows(text)).toHaveLength(2_000)
  }
  const dumped = { lines: data, next: null }
  const asked = new Request("http://localhost/admin/journal/dump", { method: "POST" })
  const [part, turns] = await turnsIn(() => inFormat(asked, dumped, memory))
  expect(turns).toBeGreaterThan(TURNS)
  expect(await part?.json()).toEqual(JSON.parse(JSON.stringify(dumped)))
})

const LIMITS = { body_bytes: 1, memory_bytes: 8.5 * 2 ** 20 }
const MIB_OF_ROWS = { data: Array.from({ length: 1_024 }, () => ({ a: "x".repeat(1_015) })) }

test("D113 unread answers of an account take at most as much memory as they leave to others", async () => {
  const memory = new Memory(0)
  const ask = (account_id: string, format = "ndjson") => {
    const request = new Request(`http://localhost/calls?format=${format}`)
    return inFormat(request, MIB_OF_ROWS, () => memory.made(account_id, LIMITS))
  }
  const unread = async (account_id: string, format?: string) => {
    const answers: Response[] = []
    for (;;) {
      const answer = await ask(account_id, format).catch((error: unknown) => error)
      if (!(answer instanceof Response)) return { answers, error: faultOf(answer) }
      answers.push(answer)
    }
  }
  const all = [await unread("a"), await unread("b", "json"), await unread("c"), await unread("d")]
  expect(all.map(({ answers }) => answers.length)).toEqual([4, 2, 1, 0])
  expect(new Set(all.map(({ error }) => error.code))).toEqual(new Set(["overloaded"]))
  const [first, second, third] = all[0]?.answers ?? []
  expect((await first?.text())?.split("\n")).toHaveLength(1_025)
  await second?.body?.cancel()
  await third?.body?.cancel()
  expect((await unread("a")).answers).toHaveLength(1)
})

test("D113 an answer that is never to have the memory is no error to repeat, and keeps none", async () => {
  const memory = new Memory(0)
  const limits = { ...LIMITS, memory_bytes: 2 ** 20 }
  for (const format of ["csv", "ndjson", "json"]) {
    const large = inFormat(new Request(`http://localhost/calls?format=${format}`), MIB_OF_ROWS, () =>
      memory.made("a", limits),
    )
    expect(faultOf(await large.catch((error: unknown) => error))).toMatchObject({ status: 400 })
  }
  expect(() => memory.made("other", limits).take(2 ** 19)).not.toThrow()
})
