import { describe, expect, test } from "bun:test"
import { catalogue } from "../../src/errors.ts"
import { misfit } from "./json-schema.ts"
import { unlike } from "./likeness.ts"
import { provocations } from "./provocations.ts"
import { answersOf, type Entry, errorsOf, type Media, requiredQuery } from "./reference.ts"
import { preparations, scenes, unchanged } from "./scenes.ts"
import { type Answer, type Asking, testStage } from "./stage.ts"

/**
 * The examples of the API reference are tested to be true: every request of every operation is sent to a real gateway, and every
 * answer and every error that the reference shows is really given. An operation that is added to the reference is tested here
 * without a line of its own, as long as its examples come from its own requests.
 */

const stage = await testStage()

/** The requests of an operation: one for each example of its body; without a body, one for each word of its parameters. */
function requestsOf(entry: Entry): { title: string; asking: Asking }[] {
  const { operation } = entry
  const examples = Object.entries(operation.requestBody?.content["application/json"]?.examples ?? {})
  const words = (operation.parameters ?? []).flatMap(({ name, in: place, schema }) =>
    place === "query" && Array.isArray(schema?.enum)
      ? schema.enum.map((word) => ({
          title: `${name}=${word}`,
          asking: { query: { ...requiredQuery(entry), [name]: String(word) } },
        }))
      : [],
  )
  if (operation.requestBody === undefined)
    return [{ title: "as it is", asking: { query: requiredQuery(entry) } }, ...words]
  return examples.map(([title, { value }]) => ({ title, asking: { body: value } }))
}

/** Where an answer is not as its example says; null where it is. */
function untrue(media: Media, type: string, example: unknown, answer: Answer): string | null {
  if (type === "application/json") {
    return misfitOf(media, answer) ?? unlike(stage.document, media.schema ?? {}, example, answer.json)
  }
  if (type === "text/event-stream") return untrueEvents(media, String(example), answer.text)
  return untrueLines(String(example), answer.text)
}

/** Both end in the same way; every event is like one of the other's. */
function untrueEvents(media: Media, example: string, real: string): string | null {
  const [wanted, come] = [dataOf(example), dataOf(real)]
  const ends = [wanted, come].map((events) => events.at(-1) === "[DONE]" && events.pop())
  if (ends[0] !== ends[1]) return "another end"
  const data = (event: string): unknown => JSON.parse(event)
  const alike = (one: string, other: string) =>
    unlike(stage.document, media.schema ?? {}, data(one), data(other)) === null
  const strange = come.find((event) => !wanted.some((one) => alike(one, event)))
  const missing = wanted.find((one) => !come.some((event) => alike(one, event)))
  if (strange !== undefined) return `not in the example: ${strange}`
  return missing === undefined ? null : `not in the answer: ${missing}`
}

function dataOf(stream: string): string[] {
  return stream
    .split("\n")
    .flatMap((line) => (line.startsWith("data: ") ? [line.slice("data: ".length)] : []))
}

/** Every line of the example is in the answer, whatever its number is. */
function untrueLines(example: string, real: string): string | null {
  const shape = (line: string) => (line.startsWith("#") ? line : line.replace(/ [\d.e+-]+$/, " 0"))
  const lines = new Set(real.split("\n").map(shape))
  const missing = example.split("\n").find((line) => line !== "" && !lines.has(shape(line)))
  return missing === undefined ? null : `not in the answer: ${missing}`
}

function examplesOf({ example, examples = {} }: Media): [name: string, value: unknown][] {
  const named = Object.entries(examples).map(([name, { value }]): [string, unknown] => [name, value])
  return example === undefined ? named : [...named, ["example", example]]
}

/** Where the reference does not tell of an answer, or null. What an example asks for must be answered like an example. */
function undescribed(entry: Entry, { body }: Asking, answer: Answer): string | null {
  const described = answersOf(entry).find(([status]) => status === answer.status)?.[1]
  if (described === undefined) return `${answer.status} is no answer of the reference: ${answer.text}`
  const { content = {} } = described
  const media = content[answer.type]
  if (media === undefined) return Object.keys(content).length === 0 ? null : `${answer.type} is not described`
  if (body === undefined) return answer.type === "application/json" ? misfitOf(media, answer) : null
  const why = examplesOf(media).map(([, value]) => untrue(media, answer.type, value, answer))
  return why.includes(null) ? null : (why[0] ?? null)
}

function misfitOf({ schema = {} }: Media, { json }: Answer): string | null {
  return misfit(stage.document, schema, json)
}

/**
 * A month is sealed a week after its end: test/admin/journal.test.ts has one, and these answers. Accounts move between several
 * shards: test/http/moves.test.ts has two.
 */
const ELSEWHERE: ReadonlySet<unknown> = new Set([
  "checkSeal",
  "dumpMonth",
  "noteDump",
  "dropMonth",
  "moveAccount",
])

describe("every request that the reference shows", () => {
  test("is answered as the reference says, and every answer that it shows is given by one of them", async () => {
    const faults: string[] = []
    const [unchanged_world, world_of_calls] = [await stage.world(), await stage.world()]
    const worldOf = async ({ method, path, operation }: Entry) => {
      if (preparations[String(operation.operationId)] !== undefined) return stage.world()
      if (method === "GET") return unchanged_world
      // Without an id in its path it changes nothing that another one needs, but adds to the list of calls.
      return path.includes("{") ? stage.world() : world_of_calls
    }
    for (const entry of stage.entries) {
      const { operationId } = entry.operation
      if (ELSEWHERE.has(operationId)) continue
      const prepare = preparations[String(operationId)]
      const answers: Answer[] = []
      for (const { title, asking } of requestsOf(entry)) {
        const world = await worldOf(entry)
        await prepare?.(stage, world)
        const answer = await stage.ask(entry, world, asking)
        answers.push(answer)
        const fault = undescribed(entry, asking, answer)
        if (fault !== null) faults.push(`${entry.name}, ${title}: ${fault}`)
      }
      for (const [status, { content = {} }] of answersOf(entry)) {
        const scene = scenes[`${operationId} ${status}`] ?? (status === 304 ? unchanged : undefined)
        if (scene !== undefined) answers.push(...(await scene(stage, entry)))
        const given = answers.filter((answer) => answer.status === status)
        if (given.length === 0) faults.push(`${entry.name}: nothing was answered with ${status}`)
        for (const [type, media] of Object.entries(content)) {
          for (const [name, value] of examplesOf(media)) {
            const why = given
              .filter((answer) => answer.type === type)
              .map((answer) => untrue(media, type, value, answer))
            if (!why.includes(null))
              faults.push(`${entry.name} ${status}, example ${name}: ${why[0] ?? "never given"}`)
          }
        }
      }
    }
    expect(faults).toEqual([])
  }, 300_000)

  test("stands beside an example of every JSON answer", () => {
    const bare = stage.entries.flatMap((entry) =>
      answersOf(entry).flatMap(([status, { content = {} }]) => {
        const media = content["application/json"]
        return media !== undefined && examplesOf(media).length === 0 ? [`${entry.name} ${status}`] : []
      }),
    )
    expect(bare).toEqual([])
    const silent = stage.entries.filter(
      (entry) => entry.operation.requestBody !== undefined && requestsOf(entry).length === 0,
    )
    expect(silent.map(({ name }) => name)).toEqual([])
  })
})

/** Errors that an operation may give and that nobody can bring about, with the reason. */
const UNPROVOKED: Readonly<Record<string, string>> = {
  "listUpstreams internal_error": "it asks neither the ledger nor a provider",
}

const ID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g

/** The error of a body, without the ids, which differ from one request to the next. */
function said(body: unknown): unknown {
  return JSON.parse(JSON.stringify(body ?? null).replaceAll(ID, "an id"))
}

describe("every error that the reference shows is really given, word by word", () => {
  const codes = Object.entries(provocations).filter(([code]) => code !== "method_not_allowed")

  test.each(codes)("%s", async (code, { attempts, around = (_, work) => work(), together = false }) => {
    const listing = stage.entries.filter((entry) => errorsOf(entry).has(code))
    const faults: string[] = []
    const provoke = async (entry: Entry) => {
      const shown = errorsOf(entry).get(code)
      const given = new Set<string>()
      for await (const answer of attempts(stage, entry)) {
        if (answer.status === shown?.status && Bun.deepEquals(said(answer.json), said(shown?.body))) {
          const advised = ["retry-after", "x-should-retry"].filter((name) => answer.headers.has(name))
          const told = Object.keys(entry.operation.responses[String(shown.status)]?.headers ?? {})
          const untold = advised.filter((name) => !told.includes(name))
          if (untold.length > 0) faults.push(`${entry.name}: ${untold.join(", ")} is not described`)
          return
        }
        given.add(`${answer.status} ${answer.status < 400 ? "" : JSON.stringify(said(answer.json))}`)
      }
      if (`${entry.operation.operationId} ${code}` in UNPROVOKED) return
      faults.push(`${entry.name}: shown ${JSON.stringify(said(shown?.body))}; given ${[...given].join(", ")}`)
    }
    await around(stage, async () => {
      if (together) await Promise.all(listing.map(provoke))
      else for (const entry of listing) await provoke(entry)
    })
    expect(listing.length).toBeGreaterThan(0)
    expect(faults).toEqual([])
  })

  test("D15: method_not_allowed, at every address", async () => {
    const { status } = catalogue.method_not_allowed
    const world = await stage.world()
    const unlike = []
    for (const entry of stage.entries) {
      const answer = await stage.ask({ ...entry, method: "PUT" }, world)
      if (answer.status !== status || answer.headers.get("allow") === null) unlike.push(entry.name)
    }
    expect(unlike).toEqual([])
  })
})
