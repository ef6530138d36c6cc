import { expect, test } from "bun:test"
import fc from "fast-check"
import type { StreamEvidence } from "../../src/meter/reading.ts"
import { jsonAnswer } from "./answers.ts"
import { DIALECTS, type Dialect } from "./dialects.ts"
import {
  type Admitted,
  admit,
  asJson,
  jsonEvidence,
  readStream,
  type Snapshot,
  tellsReasoning,
} from "./gateway.ts"
import { LISTS, modelOf } from "./models.ts"
import { type Plan, plans } from "./plan.ts"
import { bill, NO_WORK, type PriceList } from "./price-list.ts"
import { type Answer, answerTo, workUpTo } from "./provider.ts"
import { requestOf } from "./requests.ts"
import { type Event, shownBytes, streamOf } from "./streams.ts"

/**
 * D1, D4, D9, D12, D60, D87: in the words of every provider, what a call is charged is what an honest provider bills for it, and no
 * more than was held.
 */

/** 200,000 take some minutes: `HONEST_CALLS=200000`. */
const CALLS = Number(process.env.HONEST_CALLS ?? 2_000)
const SEED = Number(process.env.HONEST_SEED ?? 31)

interface Scene {
  readonly plan: Plan
  readonly dialect: Dialect
  readonly list: PriceList
  readonly answer: Answer
  readonly admitted: Admitted
}

function sceneOf(plan: Plan): Scene {
  const dialect = DIALECTS[plan.dialect] as Dialect
  const list = LISTS[plan.list] as PriceList
  const family = dialect.operation === "messages" ? "messages" : "chat"
  const model = modelOf(plan.list, family)
  const body = requestOf(plan, dialect, list, model.name)
  return {
    plan,
    dialect,
    list,
    answer: answerTo(body, plan, dialect),
    admitted: admit(dialect, body, model, plan.margin),
  }
}

/** What the provider bills when so many pieces are generated. */
function billUpTo({ plan, dialect, list, answer }: Scene, pieces: number): bigint {
  return bill(list, workUpTo(answer, pieces, dialect), answer.tier, plan.margin)
}

interface Charge {
  readonly charge_nano: bigint
  readonly notes: readonly string[]
}

/** Notes of a reading that is not whole. */
const FAULTS: ReadonlySet<string> = new Set([
  "total_unexplained",
  "usage_unread",
  "usage_implausible",
  "usage_placeholder",
  "cached_clamped",
  "details_clamped",
  "details_malformed",
  "searches_estimated",
  "overage",
])

function check(scene: Scene, { charge_nano, notes }: Charge): void {
  const { answer, admitted, dialect } = scene
  const billed_nano = billUpTo(scene, answer.pieces.length)
  const faults = notes.filter((note) => FAULTS.has(note))
  expect({ dialect: dialect.name, charge_nano, faults }).toEqual({
    dialect: dialect.name,
    charge_nano: billed_nano,
    faults: [],
  })
  expect({ dialect: dialect.name, is_held: billed_nano <= admitted.held_nano }).toEqual({
    dialect: dialect.name,
    is_held: true,
  })
}

async function checkJson(scene: Scene): Promise<void> {
  const { answer, dialect, admitted, plan } = scene
  // Q15: a provider that streams although it was not asked to.
  if (dialect.stream !== null && plan.variant % 2 === 1) {
    const events = streamOf(answer, dialect, plan.variant).map(({ text }) => text)
    const { evidence, json } = await asJson(admitted, events.join(""))
    expect(json).toMatchObject(
      dialect.operation === "messages" ? { type: "message" } : { id: expect.any(String) },
    )
    check(scene, admitted.charge(evidence))
    return
  }
  const work = workUpTo(answer, answer.pieces.length, dialect)
  check(scene, admitted.charge(jsonEvidence(admitted, jsonAnswer(answer, work, dialect, plan.variant))))
}

/** What clients that left paid, in percent of the bill up to there, where only an estimate was possible: by what they had asked for. */
const errors: Readonly<Record<"text" | "pictures", number[]>> = { text: [], pictures: [] }
let [cuts, abandoned, exact] = [0, 0, 0]

function checkStream(scene: Scene): void {
  const { answer, dialect, admitted, plan } = scene
  const events = streamOf(answer, dialect, plan.variant)
  const snapshots = readStream(
    admitted,
    events.map(({ text }) => text),
  )
  const last = snapshots.at(-1)
  if (last === undefined) throw new Error("a stream has events")
  check(scene, admitted.charge({ ...last.evidence, ending: "completed" }))
  for (const [at, event] of events.entries()) {
    const snapshot = snapshots[at]
    if (snapshot !== undefined) checkCut(scene, event, snapshot, last.evidence)
  }
}

/** A client that leaves after this event. Where the provider is read on, what it sends until its end counts (D9). */
function checkCut(scene: Scene, event: Event, snapshot: Snapshot, whole: StreamEvidence): void {
  const { admitted, answer, dialect } = scene
  const { evidence, is_over, is_paused } = snapshot
  const reads_on = is_paused || isHiding(scene, whole)
  const { charge_nano } = admitted.charge(is_over || reads_on ? whole : evidence)
  const owed_nano = billUpTo(scene, event.generated)
  cuts += 1
  if (is_over || reads_on || event.exact) {
    exact += 1
    expect({ dialect: dialect.name, pays: charge_nano >= owed_nano }).toEqual({
      dialect: dialect.name,
      pays: true,
    })
    return
  }
  const said_bytes = shownBytes(answer, event.generated)
  if (evidence.usage.state !== "valid" && evidence.output_bytes === 0) {
    expect({ charge_nano, said_bytes }).toEqual({ charge_nano: 0n, said_bytes: 0 }) // rule 6
    abandoned += 1
    return
  }
  const least_nano = leastEstimate(scene, said_bytes, evidence.usage.state === "valid")
  expect({ dialect: dialect.name, pays: charge_nano >= least_nano }).toEqual({
    dialect: dialect.name,
    pays: true,
  })
  errors[scene.plan.media.length > 0 ? "pictures" : "text"].push(
    Number((charge_nano * 1_000n) / owed_nano) / 10,
  )
}

/** Whether the model may make output that its client is not shown (D9): it has a price for it, was asked for it, or has told some. */
function isHiding({ admitted, list }: Scene, whole: StreamEvidence): boolean {
  return list.own.reasoning !== undefined || admitted.is_hiding || tellsReasoning(whole.usage)
}

/** D6: a token for four bytes of what was said, and of the prompt's text where the provider has not counted that yet. */
function leastEstimate({ list, answer, plan, admitted }: Scene, said_bytes: number, counted: boolean) {
  const prompt = counted ? answer.prompt : { ...NO_WORK, input: Math.floor(answer.text_bytes / 4) }
  const work = { ...prompt, web_search: 0, output: Math.floor(said_bytes / 4) }
  return atMost(bill(list, work, answer.tier, plan.margin), admitted.held_nano)
}

function atMost(amount_nano: bigint, most_nano: bigint): bigint {
  if (amount_nano > most_nano) return most_nano
  return amount_nano
}

const PERCENTILES = [0, 1, 5, 25, 50, 75, 95, 99, 100]

function printErrors(): void {
  console.info(
    `${CALLS} calls, ${cuts} places to leave: ${exact} pay at least the bill up to there by the provider's usage,`,
  )
  console.info(
    `  ${abandoned} nothing, because nothing was said yet (rule 6), and the others an estimate, in percent of that bill:`,
  )
  for (const [subject, percents] of Object.entries(errors)) {
    if (percents.length === 0) continue
    percents.sort((one, other) => one - other)
    const at = (percent: number) => percents[Math.floor(((percents.length - 1) * percent) / 100)]?.toFixed(0)
    const shown = PERCENTILES.map((percent) => `p${percent} ${at(percent)}`).join(", ")
    const below = percents.filter((percent) => percent < 90).length / percents.length
    console.info(
      `  ${percents.length} with ${subject}: ${shown}; ${(100 * below).toFixed(0)} % of them below 90`,
    )
  }
}

test(`D12 D87 property: ${CALLS} random calls are charged what an honest provider bills`, async () => {
  const seen = new Set<string>()
  await fc.assert(
    fc.asyncProperty(plans, async (plan) => {
      const scene = sceneOf(plan)
      seen.add(scene.dialect.name)
      if (plan.stream && scene.dialect.stream !== null) checkStream(scene)
      else await checkJson(scene)
    }),
    { seed: SEED, numRuns: CALLS },
  )
  expect(seen.size).toBe(DIALECTS.length)
  printErrors()
}, 1_200_000)
