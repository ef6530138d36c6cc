import { afterAll, afterEach, describe, expect, test } from "bun:test"
import { FAIR } from "../support/link.ts"
import { READ_MS, type Script } from "../support/provider.ts"
import { rawClient } from "../support/raw-client.ts"
import { type Draft, requestBytes } from "../support/request.ts"
import { allowedBytes, COMMIT, callOf, EVENT_STREAM, growthOf, hostileTo, mend } from "./hostile.ts"
import { Scene } from "./scene.ts"

/** Faults of a provider, and of the way to it, that each operation reads in its own way. */

const CHARGED = { state: "settled", basis: "usage", charge: "0.00003" }

export type HostileRow = readonly [
  name: string,
  stream: boolean,
  script: Script,
  told: string,
  recorded: object,
]

interface Operation {
  readonly family: "chat" | "messages"
  readonly path: string
  /** The timeout of the upstream. */
  readonly first_byte?: string
  draft(key: string, stream: boolean): Pick<Draft, "target" | "body"> & { readonly headers: string[] }
  /** A stream of so many words. */
  words(...words: readonly string[]): readonly string[]
}

/** A gateway whose provider is hostile, warm and ready. */
export async function openHostile({ family, path, first_byte = "10s", draft, words }: Operation) {
  const scene = await Scene.open()
  const victim = await scene.victim((url) => hostileTo(`${url}${path}`, family, first_byte))
  const begin = async (stream: boolean) => {
    const { id, key } = await scene.steady.account("10")
    const client = await rawClient(victim)
    const { headers, ...rest } = draft(key, stream)
    const sent = ["content-type: application/json", "connection: close", ...headers]
    client.send(requestBytes({ method: "POST", headers: sent, ...rest }))
    return { id, client }
  }
  const ask = async (stream: boolean) => {
    const { id, client } = await begin(stream)
    await client.closed
    return { received: client.received, call: await callOf(scene, id) }
  }
  // What runs for the first time is compiled, which takes memory of its own.
  scene.provider.reply(sends(words(...Array.from({ length: 2_000 }, () => "warm"))))
  for (let call = 0; call < 20; call++) await ask(true)
  afterEach(() => mend(victim))
  afterAll(() => scene.close())
  const events = words("one ", "two ", "three ", "four")
  return { scene, victim, begin, ask, events, whole: sends(events) }
}

type Hostile = Awaited<ReturnType<typeof openHostile>>

/** Sends events, each in a chunk of its own; then does the rest, or ends. */
export function sends(events: readonly string[], rest?: Script): Script {
  return async (exchange) => {
    await exchange.head(200, EVENT_STREAM)
    for (const event of events) await exchange.chunk(event)
    await (rest === undefined ? exchange.end() : rest(exchange))
  }
}

/** Ends a stream by a reset, once its events are read. */
export const resets: Script = async (exchange) => {
  await Bun.sleep(READ_MS)
  exchange.reset()
}

export function describeMemory({ scene, victim, ask }: Hostile, end: string, rows: readonly HostileRow[]) {
  describe("rule 3, rule 6, D31 a hostile provider costs no more memory than the limits", () => {
    test.each(rows)("%s", async (name, stream, script, told, recorded) => {
      const from = scene.provider.exchanges.length
      const grown_bytes = await growthOf(victim, async () => {
        scene.provider.replyOnce(script)
        const { received, call } = await ask(stream)
        expect(received).toContain(told)
        expect(received).not.toContain(end)
        expect(call).toMatchObject(recorded)
      })
      expect(grown_bytes).toBeLessThan(allowedBytes(name))
      expect(scene.provider.exchanges.length).toBe(from + 1)
    })
  })
}

/** `begun`: a stream up to "eight by"; `lost`: the record of a call whose provider was lost then; `told`: how its error begins. */
export function describeWay(
  { scene, victim, begin, events, whole }: Hostile,
  end: string,
  begun: readonly string[],
  lost: object,
  told = 'event: error\ndata: {"type":"error",',
) {
  describe("rule 5, rule 6 the way to the provider", () => {
    test("cuts everything into single bytes: the client has the provider's own bytes, and usage is charged", async () => {
      victim.upstream.weather = { ...FAIR, slice_bytes: 1 }
      scene.provider.replyOnce(whole)
      const { id, client } = await begin(true)
      const { body } = await client.answer("POST")
      expect(body.replace(COMMIT, "")).toBe(events.join(""))
      expect(await callOf(scene, id)).toMatchObject(CHARGED)
    })

    test.each([
      ["is reset", () => victim.upstream.reset(), lost],
      ["is cut", () => victim.upstream.cut(), lost],
      ["says that nothing more will come", () => victim.upstream.halfClose(), lost],
      ["swallows everything", () => victim.upstream.stall(), { ...lost, ending: "upstream_silent" }],
    ])(
      "%s in the middle of a stream: an error event, and what was seen is charged",
      async (_, fault, recorded) => {
        scene.provider.replyOnce(sends(begun, async () => {}))
        const { id, client } = await begin(true)
        await client.receives("eight by")
        fault()
        await client.closed
        expect(client.received).toContain(told)
        expect(client.received).not.toContain(end)
        expect(await callOf(scene, id)).toMatchObject(recorded)
      },
    )
  })
}

/** Comes last: the way keeps a connection that swallows everything. */
export function testSwallowedEnd({ scene, victim, ask, events }: Hostile) {
  test("the way swallows the end of the body: the last event has come, and the stream is whole", async () => {
    scene.provider.replyOnce(
      sends(events, async (exchange) => {
        await Bun.sleep(READ_MS)
        victim.upstream.stall()
        await exchange.end()
      }),
    )
    const { received, call } = await ask(true)
    expect(received).toContain(events.at(-1) ?? "")
    expect(call).toMatchObject({ ...CHARGED, ending: "completed", failure: null })
  })
}
