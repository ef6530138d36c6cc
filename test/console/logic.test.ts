import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { knowFormats } from "../../src/cli/admin-client.ts"
import {
  lessUsd,
  showAxisCounts,
  showAxisUsd,
  showCount,
  showShare,
  showUsd,
  sumUsd,
} from "../../src/console/amount.ts"
import { coarser, seriesOf, sparkArea, stacked, totalsOf } from "../../src/console/chart.ts"
import { addressOf, idIn, parseAddress, shortId } from "../../src/console/fragment.ts"
import { costLines, receiptSteps, releasedPart } from "../../src/console/receipt-lines.ts"
import {
  pauseAfter,
  rangeOf,
  showAgo,
  showAxisTimes,
  showBrief,
  showDuration,
  showMoment,
  showUtc,
  spanOf,
} from "../../src/console/times.ts"
import * as words from "../../src/console/words.ts"
import { printUsd } from "../../src/money.ts"
import { exampleOf } from "../../src/routes/reference/example.ts"
import { CallBody } from "../../src/wire/admin.ts"
import { keyState } from "../../src/wire/key-state.ts"

knowFormats()
const callExample = exampleOf(CallBody)

describe("amounts", () => {
  test.each([
    ["0", "$0.00"],
    ["10", "$10.00"],
    ["1234567.5", "$1,234,567.50"],
    ["-2.5", "−$2.50"],
    ["0.000000005", "$0.000000005"],
    ["9007199254.740993", "$9,007,199,254.740993"],
    ["nonsense", "nonsense"],
  ])("%s is shown as %s, with every decimal", (text, shown) => {
    expect(showUsd(text)).toBe(shown)
  })

  test("sums and differences are exact, beyond what a number holds", () => {
    const amount = fc.bigInt({ min: -(10n ** 17n), max: 10n ** 17n })
    fc.assert(
      fc.property(fc.array(amount), (amounts) => {
        const total = amounts.reduce((sum, one) => sum + one, 0n)
        expect(sumUsd(amounts.map(printUsd))).toBe(printUsd(total))
        expect(lessUsd(printUsd(total), printUsd(amounts[0] ?? 0n))).toBe(
          printUsd(total - (amounts[0] ?? 0n)),
        )
      }),
    )
    expect(sumUsd(["9007199254740993.000000001", "0.000000001"])).toBe("9007199254740993.000000002")
  })

  test("beside an axis all have the decimals that one of them needs", () => {
    expect(showAxisUsd([0, 0.025, 0.05, 0.1])).toEqual(["$0", "$0.025", "$0.050", "$0.100"])
    expect(showAxisUsd([0, 0.1, 0.2])).toEqual(["$0", "$0.10", "$0.20"])
    expect(showAxisUsd([0, 1_000, 2_000])).toEqual(["$0", "$1,000", "$2,000"])
    expect(showAxisCounts([0, 750_000, 1_250_000, 2e9])).toEqual(["0", "750k", "1.25M", "2G"])
  })

  test("counts and shares", () => {
    expect([showCount(0), showCount(1_234_567), showCount(-1_000)]).toEqual(["0", "1,234,567", "−1,000"])
    expect([
      showShare(0, 0),
      showShare(1, 3),
      showShare(1, 12),
      showShare(1, 10_000),
      showShare(5, 5),
    ]).toEqual(["0%", "33%", "8.3%", "<0.1%", "100%"])
  })
})

describe("times", () => {
  test("are shown in UTC, wherever the reader is", () => {
    const text = "2026-11-21T23:33:00.123Z"
    for (const zone of ["Asia/Tokyo", "America/New_York"]) {
      process.env.TZ = zone
      expect(showMoment(text)).toBe("Nov 21, 2026, 23:33:00 UTC")
      expect(showBrief(text, Date.parse("2026-01-01T00:00:00Z"))).toBe("Nov 21, 23:33:00")
      expect(showBrief(text, Date.parse("2027-01-01T00:00:00Z"))).toBe("Nov 21, 2026, 23:33")
    }
    delete process.env.TZ
    expect(showUtc(text)).toBe("2026-11-21 23:33:00.123 UTC")
    expect([showMoment("nonsense"), showUtc("nonsense")]).toEqual(["nonsense", "nonsense"])
  })

  test.each([
    [0, "0 ms"],
    [999, "999 ms"],
    [1_000, "1 s"],
    [2_417, "2.42 s"],
    [59_999, "1 min"],
    [65_000, "1 min 5 s"],
    [3_600_000, "1 h"],
    [12_000_000, "3 h 20 min"],
    [187_200_000, "2 d 4 h"],
  ])("%d ms are %s", (ms, shown) => {
    expect(showDuration(ms)).toBe(shown)
  })

  test("how long ago", () => {
    const now_ms = Date.parse("2026-11-21T12:00:00Z")
    const shown = (text: string) => showAgo(text, now_ms)
    expect(shown("2026-11-21T11:59:55Z")).toBe("just now")
    expect(shown("2026-11-21T11:59:30Z")).toBe("30 s ago")
    expect(shown("2026-11-21T11:00:00Z")).toBe("1 h ago")
    expect(shown("2026-11-24T12:00:00Z")).toBe("in 3 d")
  })

  test("beside an axis the day stands where it changes, and alone where every time is the same", () => {
    const hours = (...list: number[]) =>
      list.map((hour) => Date.parse("2026-11-20T00:00:00Z") / 1_000 + hour * 3_600)
    const shown = showAxisTimes(hours(20, 22, 24, 26))
    expect(shown.map((text) => text.includes("\n"))).toEqual([true, false, true, false])
    expect(showAxisTimes(hours(0, 24, 48)).some((text) => text.includes("\n"))).toBeFalse()
  })
})

describe("addresses", () => {
  test("are read as they are written, whatever stands in them", () => {
    const word = fc.string({ minLength: 1, maxLength: 12 })
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom("model", "from", "state"), word), (query) => {
        expect(parseAddress(addressOf("calls", null, query))).toEqual({
          view: "calls",
          id: null,
          query: { ...query },
        })
      }),
    )
    expect(parseAddress("")).toEqual({ view: "", id: null, query: {} })
    expect(parseAddress("#/accounts/abc")).toEqual({ view: "accounts", id: "abc", query: {} })
    expect(addressOf("calls", null, { model: "", state: "open" })).toBe("#/calls?state=open")
  })

  test("an id is found in whatever was pasted", () => {
    const id = "019f8b1c-6a2e-7000-9c41-2f6d0e5b7a13"
    for (const pasted of [id, ` ${id.toUpperCase()}\n`, `x-request-id: ${id}`, `{"request_id":"${id}"}`]) {
      expect(idIn(pasted)).toBe(id)
    }
    expect([idIn(""), idIn("tg_live_8Fq2"), shortId(id), shortId("short")]).toEqual([
      null,
      null,
      "019f8b1c…7a13",
      "short",
    ])
  })
})

test("ranges end now; a page that is left open asks seldom where answers take long", () => {
  expect([rangeOf("7d"), rangeOf("1y"), rangeOf(undefined)]).toEqual(["7d", "24h", "24h"])
  expect(spanOf("1h", Date.parse("2026-11-21T12:00:00Z"))).toEqual({
    from: "2026-11-21T11:00:00.000Z",
    to: "2026-11-21T12:00:00.000Z",
  })
  expect([pauseAfter(5, 2_000), pauseAfter(500, 2_000)]).toEqual([2_000, 10_000])
})

test("words of the ledger are explained, and those of a newer one shown as they are", () => {
  expect(words.basisWords("estimate")).toBe("an estimate of its tokens")
  expect(words.stateWords("new_word")).toBe("new_word")
  expect([words.counted(1, "call"), words.counted(2, "call")]).toEqual(["1 call", "2 calls"])
})

describe("a receipt", () => {
  test("has its steps with their times, and what went back", () => {
    const steps = receiptSteps(callExample)
    expect(steps.map(({ name, after_ms }) => [name, after_ms])).toEqual([
      ["Held", 0],
      ["First output", 380],
      ["Last byte", 2_417],
      ["Settled", 2_417],
    ])
    expect(releasedPart(callExample)).toBe("0.016095")
  })

  test("of an open call waits for what is to come", () => {
    const open = {
      ...callExample,
      state: "open",
      settled_at: null,
      charge: null,
      overage: null,
      usage: null,
      lines: [],
      ttft_ms: null,
      duration_ms: null,
    }
    expect(receiptSteps(open).map(({ at, missing }) => at ?? missing)).toEqual([
      callExample.started_at,
      "not yet",
      "not yet",
      "not yet",
    ])
    expect([releasedPart(open), costLines(open)]).toEqual([null, []])
  })

  test.each(["released", "expired"])("of one that was %s says so", (state) => {
    const steps = receiptSteps({ ...callExample, state, ttft_ms: null })
    expect(steps.at(-1)?.name.toLowerCase()).toBe(state)
    expect(steps[1]?.missing).toBe("no output")
  })

  test("D11: nothing goes back where the charge is above the hold", () => {
    expect(releasedPart({ ...callExample, charge: "1", overage: "0.983595" })).toBe("0")
  })

  test("D44: its lines are the charge before the one rounding, the price of the call among them", () => {
    const lines = [
      { kind: "input", count: 40, price: "0.25", cost: "0.00001" },
      { kind: "cached_input", count: 1, price: "0.025", cost: "0.000000025" },
      { kind: "web_search", count: 2, price: "0.01", cost: "0.02" },
      { kind: "per_call", count: 1, price: "0.01", cost: "0.01" },
      { kind: "newer", count: 3, price: "1", cost: "0.000003" },
    ]
    const shown = costLines({ ...callExample, lines })
    expect(shown.map(({ kind, count, unit, amount }) => [kind, count, unit, amount])).toEqual([
      ["prompt", 40, "1M", "0.00001"],
      ["cached prompt", 1, "1M", "0.000000025"],
      ["web searches", 2, "search", "0.02"],
      ["call", null, "call", "0.01"],
      ["newer", 3, "1M", "0.000003"],
    ])
    expect(costLines(callExample).map(({ kind }) => kind)).toEqual(["prompt", "output"])
  })
})

describe("charts", () => {
  const group = (name: string | null, charge: string[], calls: number[]) => ({
    group: name,
    name: null,
    calls,
    charge,
    prompt_tokens: calls,
    cached_tokens: calls.map(() => 0),
    completion_tokens: calls,
  })
  const timeline = {
    from: "",
    to: "",
    by: "model",
    step_s: 60,
    starts_at: ["2026-11-21T12:00:00.000Z", "2026-11-21T12:01:00.000Z"],
    data: [group("large", ["0.1", "0.2"], [1, 2]), group(null, ["0", "0.000000001"], [0, 1])],
    left_out: 3,
  }

  test("draw numbers and say amounts", () => {
    expect(
      seriesOf(timeline, "money").map(({ name, total, shown }) => [name, total, shown[1] ?? ""]),
    ).toEqual([
      ["large", "$0.30", "$0.20"],
      ["3 more", "$0.000000001", "$0.000000001"],
    ])
    expect(seriesOf(timeline, "tokens").map(({ values }) => values)).toEqual([
      [2, 4],
      [0, 2],
    ])
    expect(seriesOf(timeline, "calls").map(({ total }) => total)).toEqual(["3", "1"])
    expect(totalsOf(timeline)).toMatchObject({ charge: "0.300000001", calls: 4, prompt_tokens: 4 })
  })

  test("stack each series on those after it", () => {
    expect(stacked([{ values: [1, 2] }, { values: [3, 0] }, { values: [0, 1] }])).toEqual([
      [4, 3],
      [3, 1],
      [0, 1],
    ])
  })

  test("a spark keeps its shape, up to the last value, and nothing is a flat line", () => {
    expect(coarser([9, 1, 2, 3, 4], 2)).toEqual([3, 7])
    const area = (points: string) => `polygon(0% 100%, ${points}, 100% 100%)`
    expect(sparkArea([0, 1, 2])).toBe(area("0.0% 96.0%, 50.0% 48.0%, 100.0% 0.0%"))
    expect(sparkArea([0, 0])).toBe(area("0.0% 96.0%, 100.0% 96.0%"))
  })
})

test("D42: of a key what lasts longest is shown", () => {
  const now_ms = Date.parse("2026-11-21T12:00:00Z")
  const key = { revoked_at: null, expires_at: null, suspended: false }
  const past = "2026-11-20T12:00:00Z"
  expect(keyState(key, now_ms)).toBe("active")
  expect(keyState({ ...key, suspended: true }, now_ms)).toBe("suspended")
  expect(keyState({ ...key, suspended: true, expires_at: past }, now_ms)).toBe("expired")
  expect(keyState({ ...key, expires_at: past, revoked_at: past }, now_ms)).toBe("revoked")
  expect(keyState({ ...key, expires_at: "2026-11-22T12:00:00Z" }, now_ms)).toBe("active")
})
