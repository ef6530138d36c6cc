import { afterAll, afterEach, describe, expect, test } from "bun:test"
import { type Script, sse } from "../support/provider.ts"
import { rawClient } from "../support/raw-client.ts"
import { type Draft, requestBytes } from "../support/request.ts"
import { allowedBytes, callOf, growthOf, hostileTo, mend } from "./hostile.ts"
import { Scene } from "./scene.ts"

/** Floods of a provider, which each operation reads in its own way. */

type HostileRow = readonly [name: string, stream: boolean, script: Script, told: string, recorded: object]

interface Operation {
  readonly family: "chat" | "messages"
  readonly path: string
  draft(key: string, stream: boolean): Pick<Draft, "target" | "body"> & { readonly headers: string[] }
  /** A stream of so many words. */
  words(...words: readonly string[]): readonly string[]
}

/** A gateway whose provider is hostile, warm and ready. */
export async function openHostile({ family, path, draft, words }: Operation) {
  const scene = await Scene.open()
  const victim = await scene.victim((url) => hostileTo(`${url}${path}`, family))
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

const sends = (events: readonly string[]) => sse(events, { done: false })

type Hostile = Awaited<ReturnType<typeof openHostile>>

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
