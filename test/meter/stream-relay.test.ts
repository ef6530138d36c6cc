import { describe, expect, mock, test } from "bun:test"
import { Memory } from "../../src/admission/memory.ts"
import type { StreamEvidence } from "../../src/meter/reading.ts"
import type { RelayOptions, StreamSizes, StreamTimes } from "../../src/meter/relay-options.ts"
import { StreamRelay } from "../../src/meter/stream-relay.ts"
import { chat, chatEvents } from "../../src/operations/chat.ts"
import { responses } from "../../src/operations/responses.ts"
import { Fields } from "../../src/upstream/http/answer-parser.ts"
import { Exchange } from "../../src/upstream/http/exchange.ts"
import { ANY_USAGE } from "../../src/usage/reading.ts"
import type { Ending } from "../../src/wire/call.ts"
import { parseAnswer } from "../support/answer.ts"
import { last, textEvents, textItem } from "../support/responses.ts"
import { thrown } from "../support/thrown.ts"
import { cutAt, generator, randomCut } from "./cuts.ts"

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const chunk = (fields: object) => `data: ${JSON.stringify({ id: "c", ...fields })}\n\n`
const role = chunk({ choices: [{ index: 0, delta: { role: "assistant", content: "" } }] })
const images = chunk({ choices: [{ index: 0, delta: { images: [{ image_url: { url: "data:x" } }] } }] })
/** So many fill what may be held back. */
const HELD_ROLES = Math.floor(1_000 / role.length) + 1
const text = (content: string) => chunk({ choices: [{ index: 0, delta: { content } }] })
const finish = chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })
const usage = chunk({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 2 } })
const tokens = { prompt_tokens: 9, completion_tokens: 2 }
const usageWithCost = chunk({ choices: [], usage: { ...tokens, cost: 0.00031 } })
const finishing = chunk({
  choices: [{ index: 0, delta: { content: "b" }, finish_reason: "stop" }],
  usage: tokens,
})
const finishingWithoutUsage = chunk({
  choices: [{ index: 0, delta: { content: "b" }, finish_reason: "stop" }],
  usage: null,
})
const finishUsing = chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage: tokens })
const textUsing = chunk({ choices: [{ index: 0, delta: { content: "c" } }], usage: tokens })
const invalidUsage = chunk({ choices: [], usage: { prompt_tokens: -1 } })
const done = "data: [DONE]\n\n"
const broken = 'data: {"error":{"message":"theirs"}}\n\n'
const errorEvent = 'data: {"error":"ours"}\n\n'

/** A provider's body that a test writes by hand. */
function source() {
  const body = new Exchange()
  body.receiveHead({ status: 200, length: null, fields: new Fields(""), fault: null })
  return {
    body,
    send: (...parts: (string | Uint8Array)[]) => {
      for (const part of parts) body.push(typeof part === "string" ? encoder.encode(part) : part)
    },
    close: () => body.end(),
    reset: () => body.fail(new Error("reset")),
  }
}

/** Longer than any test may take. */
const NEVER_MS = 1_000_000

function countedTurn() {
  return mock(() => new Promise<void>((resolve) => setImmediate(resolve)))
}

function relay(changes: Partial<RelayOptions & StreamSizes & StreamTimes> = {}) {
  const { event_bytes = 1_000, response_bytes = 1_000, response_read_bytes = 3_000, ...rest } = changes
  const {
    keepalive_ms = NEVER_MS,
    commit_after_ms = NEVER_MS,
    stall_ms = NEVER_MS,
    finish_wait_ms = 0,
  } = changes
  const provider = source()
  const settled = Promise.withResolvers<StreamEvidence>()
  const seen = { settlements: 0, cancelled: 0, finished: 0, cut: 0, outputs: 0, keepalives: 0, faults: 0 }
  const stream_relay = new StreamRelay({
    source: { read: () => provider.body.read(), cancel: () => void seen.cancelled++ },
    form: chatEvents,
    json: chat.json,
    requested: 1,
    usage_rules: ANY_USAGE,
    wants_usage: false,
    wants_cost: false,
    pass_cost: false,
    sizes: { event_bytes, response_bytes, response_read_bytes },
    memory: { hold: () => null, stop: () => {}, free: () => {} },
    times: { keepalive_ms, commit_after_ms, stall_ms, finish_wait_ms },
    idle_ms: NEVER_MS,
    total_ms: NEVER_MS,
    drain_ms: null,
    settle: async (evidence) => {
      seen.settlements += 1
      settled.resolve(evidence)
      return 310_000n
    },
    turn: () => null,
    errorEvent: () => encoder.encode(errorEvent),
    withoutSecret: (parts) => parts,
    finishSource: () => void seen.finished++,
    cutClient: () => void seen.cut++,
    onOutput: () => void seen.outputs++,
    onKeepalive: () => void seen.keepalives++,
    onFault: () => void seen.faults++,
    ...rest,
  })
  stream_relay.start()
  return {
    stream_relay,
    provider,
    seen,
    settled: settled.promise,
    client: () => new Response(stream_relay.outlet.stream()).text(),
  }
}

/** More than the buffers of two sockets take. */
const SOCKETFUL = Array.from({ length: 40 }, () => chunk({ choices: [], padding: "x".repeat(500_000) }))

/** A client at the other end of a socket, which reads until it is told to stall. */
async function connect(stream_relay: StreamRelay) {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => new Response(stream_relay.outlet.stream()),
  })
  let received = ""
  let came = Promise.withResolvers<void>()
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: server.port ?? 0,
    socket: {
      data: (_, bytes) => {
        received += bytes.toString()
        came.resolve()
        came = Promise.withResolvers()
      },
    },
  })
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
  return {
    stall: () => socket.pause(),
    resume: () => socket.resume(),
    get received() {
      return received
    },
    shows: async (expected: (received: string) => boolean) => {
      while (!expected(received)) await came.promise
    },
    leave: async () => {
      socket.terminate()
      await server.stop(true)
    },
  }
}

/** Chunks of up to 400 KB, each in a buffer of its own that has other bytes around it. */
function chunksOf(events: readonly string[]): Uint8Array[] {
  const bytes = encoder.encode(events.join(""))
  const sizeOf = (random: () => number) => random() % (random() % 2 === 0 ? 400_000 : 200)
  return randomCut(bytes, bytes.byteLength, sizeOf).map((part) => {
    const buffer = new Uint8Array(part.byteLength + 20).fill(0x21)
    buffer.set(part, 10)
    return buffer.subarray(10, 10 + part.byteLength)
  })
}

function bodyOf(received: string): string {
  return parseAnswer(Buffer.from(received))?.answer.body ?? ""
}

/** Differences from the usual stream: how the body ends, what the client asks for, and how the stream is settled. */
interface How {
  readonly end?: "close" | "reset"
  readonly wants?: Partial<RelayOptions>
  readonly ending?: Ending
}
const COST = { wants: { wants_cost: true } }
const LOST: How = { ending: "upstream_lost" }
const CLOSED: How = { end: "close" }
const first = text("a")
const finishWithoutUsage = finishUsing.replace(JSON.stringify(tokens), "null")

describe("what the client sees", () => {
  const rows: [name: string, sent: string[], shown: string, how?: How][] = [
    [
      "D8 a clean end after final usage alone is never shown as one",
      [first, usage],
      first + errorEvent,
      { ...CLOSED, ...LOST },
    ],
    [
      "D49 the cost is told when the provider leaves [DONE] out",
      [first, finish, usage.trimEnd()],
      first + finish + usageWithCost + done,
      { ...COST, ...CLOSED },
    ],
    [
      "D49 usage that comes with the last output is told in a chunk of its own",
      [first, finishing, done],
      first + finishingWithoutUsage + usageWithCost + done,
      COST,
    ],
    [
      "D49 of several final usages the last is told, comments and chunks pass at once",
      [first, finishUsing, ": hi\n\n", usage, chunk({ choices: [] }), done],
      `${first}${finishWithoutUsage}: hi\n\n${chunk({ choices: [] })}${usageWithCost}${done}`,
      COST,
    ],
    [
      "D49 usage in the middle of a stream passes unchanged",
      [textUsing, finish, usage, done],
      textUsing + finish + usageWithCost + done,
      { wants: { wants_usage: true, wants_cost: true } },
    ],
    [
      "D49 an event of several lines, with CRLF, is told as one of several lines",
      [first, `data: {"choices":[],\r\ndata: "usage":${JSON.stringify(tokens)}}\r\n\r`, `\n${done}`],
      `${first}data: {"choices":[],\ndata: "usage":{"prompt_tokens":9,"completion_tokens":2,"cost":0.00031}}\n\n${done}`,
      COST,
    ],
    [
      "D49 a stream that breaks after its usage tells no cost",
      [first, usage, broken],
      first + usage + errorEvent,
      { ...COST, ...LOST },
    ],
    [
      "D49 a stream without valid usage tells no cost",
      [first, finish, invalidUsage, done],
      first + finish + invalidUsage + done,
      { wants: { wants_usage: true, wants_cost: true } },
    ],
    ["D49, rule 6 nothing is told of a stream without usage and output", [role, finish, done], "", COST],
    [
      "D49 a stream of nothing but usage tells its cost",
      [role, usage, done],
      role + usageWithCost + done,
      COST,
    ],
    ["D36 an unterminated [DONE] counts", [first, done.trimEnd()], first + done, CLOSED],
    ["rule 6 a reset before output ends cleanly", [], "", { ...LOST, end: "reset" }],
    [
      "rule 4 what was held back comes before the first output",
      [`: hi\n\n${role}`, first, done],
      `: hi\n\n${role}${first}${done}`,
    ],
    [
      "D36 what is held back is bounded: beyond the limit it is dropped",
      [...Array.from({ length: 30 }, () => role), first, done],
      role.repeat(30 % HELD_ROLES) + first + done,
    ],
    ["D36 what is held back is bounded, in one chunk too", [role.repeat(30), first, done], first + done],
    ["D7 output under a name that nobody knows passes at once", [images, done], images + done],
  ]
  for (const [name, sent, shown, { end, wants = {}, ending = "completed" } = {}] of rows) {
    test(name, async () => {
      const { provider, client, settled, seen } = relay(wants)
      const answer = client()
      provider.send(...sent)
      if (end === "close") provider.close()
      if (end === "reset") provider.reset()
      expect(await answer).toBe(shown)
      expect((await settled).ending).toBe(ending)
      expect(seen).toMatchObject({ settlements: 1, faults: 0, cut: 0 })
      expect(seen.finished + seen.cancelled).toBe(1)
    })
    if (end === "reset") continue
    test(`${name}; D32 in one piece, if all has come`, async () => {
      const charge = Promise.withResolvers<bigint>()
      const { stream_relay, provider, seen } = relay({
        ...wants,
        settle: (evidence) => {
          expect(evidence.ending).toBe(ending)
          seen.settlements += 1
          return charge.promise
        },
      })
      provider.send(...sent)
      provider.close()
      let is_sent = false
      const sending = stream_relay.outlet.whole().then((bytes) => {
        is_sent = true
        return bytes
      })
      await Bun.sleep(0)
      expect(seen.settlements).toBe(1)
      expect(is_sent).toBe(false)
      charge.resolve(310_000n)
      expect(decoder.decode(await sending)).toBe(shown)
      expect(seen).toMatchObject({ settlements: 1, faults: 0, cut: 0 })
      expect(seen.finished + seen.cancelled).toBe(1)
    })
  }

  test("in one piece: a relay that fails itself is not waited for", async () => {
    const broken = () => {
      throw new Error("broken")
    }
    const { stream_relay, provider, seen } = relay({ settle: broken })
    provider.send(text("a"), done)
    provider.close()
    expect(String(await thrown(stream_relay.outlet.whole()))).toContain("broken")
    expect(seen.faults).toBe(1)
  })

  test.each([
    ["before it has begun", []],
    ["after its first event", [text("a")]],
  ])("an answer whose relay fails itself is cut: %s", async (_, events) => {
    const broken = () => {
      throw new Error("broken")
    }
    const { stream_relay, provider, seen } = relay({ settle: broken })
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () => stream_relay.outlet.ready().then(() => new Response(stream_relay.outlet.stream())),
      error: () => new Response(null, { status: 500 }),
    })
    provider.send(...events)
    const answering = fetch(server.url)
    if (events.length > 0) await answering
    provider.reset()
    const answer = answering.then(async (response) => [response.status, await response.text()])
    if (events.length > 0) expect(String(await thrown(answer))).toContain("closed unexpectedly")
    else expect(await answer).toEqual([500, ""])
    expect(seen.faults).toBe(1)
    await server.stop(true)
  })
})

test("D36 every two-way cut of a stream shows the client the same bytes", async () => {
  const crlf = (event: string) => event.replaceAll("\n", "\r\n")
  const whole = encoder.encode(
    [
      "\ufeff: hi\r\n\r\n",
      role,
      crlf(text("é😀")),
      text("b"),
      crlf(usage),
      finish.replaceAll("\n", "\r"),
      crlf(done),
    ].join(""),
  )
  const show = async (...parts: Uint8Array[]) => {
    const { provider, client, settled } = relay()
    const answer = client()
    provider.send(...parts)
    return { text: await answer, evidence: await settled }
  }
  const expected = await show(whole)
  expect(expected.text).toContain("😀")
  expect(expected.text).not.toContain('"usage"')
  for (let at = 1; at < whole.byteLength; at++) {
    expect(await show(whole.subarray(0, at), whole.subarray(at))).toEqual(expected)
  }
  expect(await show(...Array.from(whole, (_, at) => whole.subarray(at, at + 1)))).toEqual(expected)
})

test("D36 events that arrived in one chunk leave in one chunk", async () => {
  const { stream_relay, provider } = relay({ event_bytes: 1_000_000 })
  const client = await connect(stream_relay)
  // Each is large enough that the server would send it by itself.
  const events = ["a", "b", "c"].map((letter) => text(letter.repeat(100_000))).join("")
  provider.send(events)
  const shown = `\r\n\r\n${events.length.toString(16)}\r\n${events}\r\n`
  await client.shows((received) => received.endsWith(shown))
  await client.leave()
})

test("D78 each part waits for its turn, a short one as if it had 2 KiB", async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const asked: number[] = []
  const turn = (bytes: number) => {
    asked.push(bytes)
    return promise
  }
  const { provider, seen, client } = relay({ event_bytes: 100_000, turn })
  const shown = client()
  const long = text("x".repeat(16_384))
  provider.send(long, usage, done)
  provider.close()
  await new Promise(setImmediate)
  expect([asked, seen.outputs]).toEqual([[long.length], 0])
  resolve()
  expect(await shown).toBe(long + done)
  expect(asked).toEqual([long.length, 2_048, 2_048])
})

test("D78 a long part that waits for its turn when the stream ends is settled, and not shown", async () => {
  const turn = (bytes: number) => (bytes < 16_384 ? null : Promise.withResolvers<void>().promise)
  const { provider, stream_relay, settled, client } = relay({ event_bytes: 100_000, turn })
  const shown = client()
  provider.send(text("a"))
  await new Promise(setImmediate)
  provider.send(text("x".repeat(16_384)) + usage)
  await new Promise(setImmediate)
  stream_relay.stop()
  expect(await settled).toMatchObject({ usage: { state: "valid", usage: tokens } })
  expect(await shown).toBe(text("a") + errorEvent)
})

test("D78 a stream whose time is over waits for its turn, as many may end together", async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  const turn = () => {
    asked.resolve()
    return promise
  }
  const { provider, seen, settled, client } = relay({ total_ms: 5, turn })
  const shown = client()
  provider.send(text("a"))
  await asked.promise
  expect(seen.settlements).toBe(0)
  resolve()
  expect(await settled).toMatchObject({ ending: "deadline" })
  expect(await shown).toBe(text("a") + errorEvent)
})

describe("D78 a part with more than 4,096 events", () => {
  const short = Array.from({ length: 10_000 }, (_, n) => `:${n}\n\n`).join("")

  test("takes further turns, and leaves in one chunk", async () => {
    const asked: (number | undefined)[] = []
    const turn = (bytes?: number) => {
      asked.push(bytes)
      return null
    }
    const { stream_relay, provider } = relay({ event_bytes: 100_000, turn })
    const client = await connect(stream_relay)
    const part = text("a") + short
    provider.send(part)
    await client.shows((received) => received.endsWith("9999\n\n\r\n"))
    expect(client.received).toContain(`\r\n\r\n${part.length.toString(16)}\r\n${part}\r\n`)
    expect(asked).toEqual([part.length, undefined, undefined])
    await client.leave()
  })

  test("is settled by all of them if the stream ends between its turns", async () => {
    let turns = 0
    const turn = () => (turns++ === 0 ? null : Promise.withResolvers<void>().promise)
    const { provider, stream_relay, settled, client } = relay({ event_bytes: 100_000, turn })
    const shown = client()
    provider.send(text("a"))
    await new Promise(setImmediate)
    provider.send(short + usage)
    await new Promise(setImmediate)
    stream_relay.stop()
    expect(await settled).toMatchObject({ usage: { state: "valid", usage: tokens } })
    expect((await shown).endsWith(errorEvent)).toBeTrue()
  })
})

describe("large chunks", () => {
  const options = { event_bytes: 1_000_000 }
  const mixed = (seed: number) => {
    const random = generator(seed)
    return Array.from({ length: 60 }, (_, n) => {
      const length = random() % 3 === 0 ? random() % 400_000 : random() % 100
      return n % 5 === 4 ? usage : n % 7 === 6 ? `: ${n}\r\n\r\n` : text(`${n}`.repeat(1 + length / 2))
    })
  }
  const streams: [string, string[]][] = [
    ["many events", Array.from({ length: 40_000 }, (_, n) => (n % 1_000 === 999 ? usage : text(`${n}`)))],
    ["one event", [text("x".repeat(900_000))]],
    ...Array.from({ length: 8 }, (_, n): [string, string[]] => [`mixed events (${n})`, mixed(n + 1)]),
  ]
  const shownOf = (events: readonly string[]) => events.filter((event) => event !== usage).join("") + done

  test.each(streams)("of %s reach the client unchanged", async (_, events) => {
    const { stream_relay, provider } = relay(options)
    const client = await connect(stream_relay)
    provider.send(...chunksOf([...events, done]))
    await client.shows((received) => received.endsWith("\r\n0\r\n\r\n"))
    expect(bodyOf(client.received)).toBe(shownOf(events))
    await client.leave()
  })

  test.each(streams.slice(0, 4))(
    "of %s reach a client unchanged that did not read for a while",
    async (_, events) => {
      const { stream_relay, provider } = relay(options)
      const client = await connect(stream_relay)
      client.stall()
      provider.send(text("a"), ...SOCKETFUL, ...chunksOf([...events, done]))
      while (stream_relay.outlet.taken) await Bun.sleep(1)
      client.resume()
      await client.shows((received) => received.endsWith("\r\n0\r\n\r\n"))
      expect(bodyOf(client.received)).toBe(text("a") + SOCKETFUL.join("") + shownOf(events))
      await client.leave()
    },
  )

  test.each(streams)("of %s are gathered unchanged", async (_, events) => {
    const { stream_relay, provider } = relay(options)
    provider.send(...chunksOf([...events, done]))
    expect(decoder.decode(await stream_relay.outlet.whole())).toBe(shownOf(events))
  })

  test.each(streams.slice(0, 2))("of %s are freed once they were sent", async (_, events) => {
    const bytes = encoder.encode(events.join("") + done)
    const chunks = cutAt(bytes, [200_001, 400_003, 600_005]).map((part) => part.slice())
    const { stream_relay, provider } = relay(options)
    provider.send(...chunks)
    await stream_relay.outlet.ready()
    const client = await connect(stream_relay)
    await client.shows((received) => received.endsWith("\r\n0\r\n\r\n"))
    expect(chunks.map(({ byteLength }) => byteLength)).toEqual([0, 0, 0, 0])
    await client.leave()
  })

  test("are kept while their events are held back", async () => {
    const { stream_relay, provider } = relay(options)
    const client = await connect(stream_relay)
    const roles = Array.from({ length: 2_000 }, () => role)
    provider.send(...chunksOf(roles), text("a"), done)
    await client.shows((received) => received.endsWith("\r\n0\r\n\r\n"))
    expect(bodyOf(client.received)).toBe(roles.join("") + text("a") + done)
    await client.leave()
  })

  test("are freed while a stream is drained that the client left before it was sent", async () => {
    const { stream_relay, provider, settled } = relay({ ...options, drain_ms: 5_000 })
    stream_relay.clientLeft()
    const chunks = [text("a"), ...Array.from({ length: 4 }, () => text("b".repeat(100_000)))].map((event) =>
      encoder.encode(event),
    )
    provider.send(...chunks, done)
    await settled
    expect(chunks.slice(1).map(({ byteLength }) => byteLength)).toEqual([0, 0, 0, 0])
  })

  test("the gateway's own bytes are not freed", async () => {
    const keepalive = encoder.encode(`:${" ".repeat(100_000)}\n\n`)
    const two = Promise.withResolvers<void>()
    let keepalives = 0
    const { stream_relay, provider } = relay({
      form: { ...chatEvents, keepalive },
      keepalive_ms: 20,
      onKeepalive: () => {
        keepalives += 1
        if (keepalives === 2) two.resolve()
      },
    })
    const client = await connect(stream_relay)
    provider.send(text("a"))
    await two.promise
    expect(keepalive.byteLength).toBe(100_003)
    await client.leave()
  })
})

test("D32, D49 usage with its cost waits for the settlement too, output that came with it does not", async () => {
  const durable = Promise.withResolvers<bigint>()
  const { stream_relay, provider } = relay({ settle: () => durable.promise, wants_cost: true })
  const reader = stream_relay.outlet.stream().getReader()
  provider.send(finishing)
  expect(decoder.decode((await reader.read()).value)).toBe(finishingWithoutUsage)
  const next = reader.read()
  provider.send(done)
  expect(await Promise.race([next, Bun.sleep(30).then(() => "waiting")])).toBe("waiting")
  durable.resolve(7n)
  const told = decoder.decode((await next).value)
  expect(told).toBe(chunk({ choices: [], usage: tokens }).replace("2}}", '2,"cost":0.000000007}}'))
  expect(decoder.decode((await reader.read()).value)).toBe(done)
})

test("D36 keepalives come after silence, between events", async () => {
  const two = Promise.withResolvers<void>()
  let keepalives = 0
  const { provider, client } = relay({
    keepalive_ms: 20,
    onKeepalive: () => {
      keepalives += 1
      if (keepalives === 2) two.resolve()
    },
  })
  const answer = client()
  provider.send(text("a"), text("b").slice(0, 10))
  await two.promise
  provider.send(text("b").slice(10), done)
  const shown = await answer
  expect(shown.replaceAll(": keepalive\n\n", "")).toBe(text("a") + text("b") + done)
  expect(shown.startsWith(`${text("a")}: keepalive\n\n: keepalive\n\n`)).toBe(true)
})

test("D36 a client that was slow to take a keepalive is not taken for one that reads nothing", async () => {
  const reads = Promise.withResolvers<void>()
  const waits = Promise.withResolvers<void>()
  const keepalive = encoder.encode(`:${" ".repeat(20_000_000)}\n\n`)
  let keepalives = 0
  const { stream_relay, provider, settled } = relay({
    form: { ...chatEvents, keepalive },
    keepalive_ms: 20,
    stall_ms: 2_000,
    onKeepalive: () => {
      keepalives += 1
      if (keepalives === 1) reads.resolve()
      if (keepalives === 3) waits.resolve()
    },
  })
  const client = await connect(stream_relay)
  provider.send(text("a"))
  await client.shows((received) => received.endsWith("\n\n\r\n"))
  client.stall()
  await reads.promise
  client.resume()
  await Promise.race([waits.promise, settled])
  provider.send(done)
  expect(await settled).toMatchObject({ ending: "completed" })
  await client.leave()
})

describe("D8 the limits", () => {
  test.each([["has not taken what came when the time is over", { total_ms: 2_000 }]])(
    "client_stalled: a client that %s is cut and settled",
    async (_, limits) => {
      const { stream_relay, provider, settled, seen } = relay({ ...limits, event_bytes: 1_000_000 })
      const client = await connect(stream_relay)
      client.stall()
      provider.send(text("a"), ...SOCKETFUL)
      expect(await settled).toMatchObject({ ending: "client_stalled" })
      expect(seen).toMatchObject({ cut: 1, cancelled: 1, settlements: 1 })
      await client.leave()
    },
  )

  test("gateway_stopped: a cut stream is shown as an error and settled once", async () => {
    const { stream_relay, provider, settled, seen } = relay()
    const reader = stream_relay.outlet.stream().getReader()
    provider.send(text("a"))
    await reader.read()
    stream_relay.stop()
    stream_relay.stop()
    expect(decoder.decode((await reader.read()).value)).toBe(errorEvent)
    expect((await reader.read()).done).toBe(true)
    expect(await settled).toMatchObject({ ending: "gateway_stopped" })
    expect(seen.settlements).toBe(1)
  })
})

describe("D9 a client that leaves", () => {
  const leave = async ({ stream_relay, provider }: ReturnType<typeof relay>, ...sent: string[]) => {
    const reader = stream_relay.outlet.stream().getReader()
    provider.send(sent.join(""))
    await reader.read()
    await reader.cancel()
  }

  test("when the choice has finished: read on no longer than finish_wait", async () => {
    const relayed = relay({ finish_wait_ms: 30 })
    await leave(relayed, text("a"), finish)
    expect(await relayed.settled).toMatchObject({ ending: "client_left", usage: { state: "missing" } })
  })

  test("when one of two choices has finished: cut at once", async () => {
    const relayed = relay({ finish_wait_ms: NEVER_MS, requested: 2 })
    const other = chunk({ choices: [{ index: 1, delta: { content: "b" } }] })
    await leave(relayed, text("a"), other, finish)
    expect(await relayed.settled).toMatchObject({ ending: "client_left", output_bytes: 2 })
  })

  test("when two were requested, and the only one that began has finished: read on", async () => {
    const relayed = relay({ finish_wait_ms: NEVER_MS, requested: 2 })
    await leave(relayed, text("a"), finish)
    relayed.provider.send(usage)
    expect(await relayed.settled).toMatchObject({ ending: "client_left", usage_final: true })
  })

  test("drain: a choice that finishes meanwhile makes it finish_wait, if that is longer", async () => {
    const relayed = relay({ drain_ms: 60, finish_wait_ms: NEVER_MS })
    await leave(relayed, text("a"))
    relayed.provider.send(finish)
    await Bun.sleep(120)
    expect(relayed.seen.settlements).toBe(0)
    relayed.provider.send(usage)
    expect(await relayed.settled).toMatchObject({ ending: "client_left", usage_final: true })
  })

  test("drain: a shutdown ends it, and it is the client that left", async () => {
    const relayed = relay({ drain_ms: NEVER_MS })
    await leave(relayed, text("a"))
    relayed.stream_relay.stop()
    expect(await relayed.settled).toMatchObject({ ending: "client_left", output_bytes: 1 })
    expect(relayed.seen).toMatchObject({ settlements: 1, cancelled: 1 })
  })

  test.each([
    ["the choice has finished", text("a") + finish, { finish_wait_ms: NEVER_MS }],
    ["the policy is to read on", text("a"), { drain_ms: NEVER_MS }],
  ])("a client that stalls when %s is cut, and the provider read on", async (_, said, waits) => {
    const cut = Promise.withResolvers<void>()
    let cuts = 0
    const { stream_relay, provider, settled, seen } = relay({
      ...waits,
      stall_ms: 30,
      event_bytes: 1_000_000,
      cutClient: () => {
        cuts += 1
        cut.resolve()
      },
    })
    const client = await connect(stream_relay)
    client.stall()
    provider.send(said, ...SOCKETFUL)
    await cut.promise
    provider.send(usage)
    expect(await settled).toMatchObject({ ending: "client_stalled", usage_final: true })
    expect({ ...seen, cut: cuts }).toMatchObject({ cut: 1, finished: 1, settlements: 1 })
    await client.leave()
  })
})

describe("D63 D32 the last event of a stream that has no [DONE]", () => {
  const { stream: form } = responses
  if (form === null) throw new Error("responses are not streamed")

  test("comes once the charge is durable, and nothing after it", async () => {
    const durable = Promise.withResolvers<bigint>()
    const settle = () => durable.promise
    const { stream_relay, provider } = relay({ form, event_bytes: 10_000, settle })
    const [words, stop] = [textEvents(["a"]).join(""), last([textItem("a")])]
    provider.send(words, stop, words)
    const reader = stream_relay.outlet.stream().getReader()
    expect(decoder.decode((await reader.read()).value)).toBe(words)
    const next = reader.read()
    expect(await Promise.race([next, Bun.sleep(30).then(() => "waiting")])).toBe("waiting")
    durable.resolve(1n)
    expect(decoder.decode((await next).value)).toBe(stop)
    expect((await reader.read()).done).toBe(true)
  })

  test("keeps its memory until then if it is large", async () => {
    const durable = Promise.withResolvers<bigint>()
    const { stream_relay, provider } = relay({
      form,
      event_bytes: 1_000_000,
      settle: () => durable.promise,
    })
    const client = await connect(stream_relay)
    const words = textEvents(["a".repeat(200_000)]).join("")
    const stop = last([textItem("x".repeat(900_000))])
    provider.send(...chunksOf([words, stop]))
    await client.shows((received) => bodyOf(received) === words)
    durable.resolve(1n)
    await client.shows((received) => received.endsWith("\r\n0\r\n\r\n"))
    expect(bodyOf(client.received)).toBe(words + stop)
    await client.leave()
  })
})

test("D29 D41 a large JSON answer to a stream request is converted into events in several turns of the event loop", async () => {
  const MIB = 1_048_576
  const turn = countedTurn()
  const { stream_relay, provider } = relay({ response_bytes: 16 * MIB, event_bytes: 16 * MIB, turn })
  const content = "abcdefg\\n".repeat(MIB)
  const answer = `{"choices":[{"index":0,"message":{"content":"${content}"}}],"usage":${JSON.stringify(tokens)}}`
  const shown = stream_relay.outlet.whole()
  provider.send(answer)
  provider.close()
  expect(decoder.decode(await shown)).toContain(`"delta":{"content":"${content}"}`)
  expect(turn.mock.calls.length).toBeGreaterThan(8)
})

describe("D41 D78 the turns of the event loop that events take", () => {
  const shown = async (data: string, turn: ReturnType<typeof countedTurn>) => {
    const { stream_relay, provider } = relay({ event_bytes: 8_388_608, turn })
    const received = stream_relay.outlet.whole()
    provider.send(`${text("a")}${data}${finish}data: [DONE]\n\n`)
    provider.close()
    expect(decoder.decode(await received)).toContain(data)
    return turn.mock.calls.length
  }

  test("one of more than 256 KiB, and few if it is one plain text", async () => {
    const event = (text: string) => `data: {"choices":[],"x":"${text}"}\n\n`
    expect(await shown(event("\\n".repeat(2_097_152)), countedTurn())).toBeGreaterThan(16)
    expect(await shown(event("y".repeat(4_194_304)), countedTurn())).toBeLessThan(4)
  })

  test("many that are parsed, and few if they are alike", async () => {
    const events = (nameOf: (at: number) => string) =>
      [...Array(4_000).keys()].map((at) => `data: {"choices":[],"x":"${nameOf(at)}"}\n\n`).join("")
    expect(
      await shown(
        events((at) => "x".repeat(50 + (at % 7))),
        countedTurn(),
      ),
    ).toBeGreaterThan(4)
    expect(
      await shown(
        events(() => "x".repeat(50)),
        countedTurn(),
      ),
    ).toBeLessThan(4)
  })

  test("clients that leave", async () => {
    const turn = Promise.withResolvers<void>()
    const { stream_relay, provider, seen, settled } = relay({ turn: () => turn.promise })
    void stream_relay.outlet.ready()
    stream_relay.clientLeft()
    provider.send(text("a"))
    expect(seen.settlements).toBe(0)
    turn.resolve()
    expect(await settled).toMatchObject({ ending: "client_left" })
  })
})

test("D9 D29 a client that leaves while its JSON answer is converted is charged by its usage", async () => {
  const begun = Promise.withResolvers<void>()
  const converted = Promise.withResolvers<void>()
  const turns = [null, null]
  const turn = () => {
    if (turns.length > 0) return turns.pop() ?? null
    begun.resolve()
    return converted.promise
  }
  const sizes = { response_bytes: 1_000_000, event_bytes: 1_000_000, finish_wait_ms: NEVER_MS }
  const { stream_relay, provider, settled } = relay({ ...sizes, turn })
  const message = { content: "x".repeat(100_000) }
  void stream_relay.outlet.ready()
  provider.send(JSON.stringify({ choices: [{ index: 0, message, finish_reason: "stop" }], usage: tokens }))
  provider.close()
  await begun.promise
  stream_relay.clientLeft()
  converted.resolve()
  expect(await settled).toMatchObject({ ending: "client_left", usage: { state: "valid" }, usage_final: true })
})

test("D29 a JSON answer with more events than a turn takes is sent whole", async () => {
  const { stream_relay, provider } = relay({
    response_bytes: 1_048_576,
    form: {
      ...chatEvents,
      eventsOf: () => `${text("a").repeat(2)}${role.repeat(9_000)}${text("last")}${done}`,
    },
  })
  const shown = stream_relay.outlet.whole()
  provider.send(JSON.stringify({ choices: [] }))
  provider.close()
  expect(decoder.decode(await shown)).toContain('"last"')
})

describe("D77 D29 the memory of a JSON answer to a stream request", () => {
  const MIB = 1_048_576
  const content = "x".repeat(2 * MIB)
  const answer = `{"choices":[{"index":0,"message":{"content":"${content}"}}],"usage":${JSON.stringify(tokens)}}`
  const limits = { body_bytes: 4 * MIB, memory_bytes: 64 * MIB }

  test("counts from when it arrives until its client has it", async () => {
    const memory = new Memory(0)
    const other = memory.answer("a", limits)
    expect(other.hold(100 * MIB)).toBeNull()
    other.stop()
    const room = memory.answer("a", limits)
    const waits = Promise.withResolvers<void>()
    const hold = (bytes: number) => {
      const taken = room.hold(bytes)
      if (taken !== null) waits.resolve()
      return taken
    }
    const noted = { hold, stop: () => room.stop(), free: () => room.free() }
    const { provider, client } = relay({ response_bytes: 4 * MIB, memory: noted })
    const shown = client()
    provider.send(answer)
    provider.close()
    await waits.promise
    other.free()
    expect(await shown).toContain(content)
    expect(other.hold(100 * MIB)).toBeNull()
  })

  test("is not there: it is read for its usage, like one over the limit", async () => {
    const memory = {
      hold: (bytes: number) => (bytes === 0 ? null : Promise.resolve(false)),
      stop() {},
      free() {},
    }
    const { provider, client, settled } = relay({
      response_bytes: 4 * MIB,
      response_read_bytes: 4 * MIB,
      memory,
    })
    provider.send(answer)
    provider.close()
    expect(await client()).toContain(errorEvent)
    expect(await settled).toMatchObject({ too_large: true, usage: { state: "valid" } })
  })

  test.each(["while a part waits for its turn", "while it is converted"])(
    "is given back if the client leaves %s",
    async (moment) => {
      const memory = new Memory(0)
      const left = Promise.withResolvers<void>()
      const turn = Promise.withResolvers<void>()
      const leave = () => {
        stream_relay.clientLeft()
        left.resolve()
      }
      let parts = 0
      const { stream_relay, provider } = relay({
        response_bytes: 4 * MIB,
        memory: memory.answer("a", limits),
        form: {
          ...chatEvents,
          eventsOf: (payload) => {
            leave()
            return chatEvents.eventsOf(payload)
          },
        },
        turn: () => {
          parts += 1
          if (moment !== "while a part waits for its turn" || parts !== 2) return null
          queueMicrotask(leave)
          return turn.promise
        },
      })
      void stream_relay.outlet.ready()
      provider.send(answer.slice(0, MIB), answer.slice(MIB))
      provider.close()
      await left.promise
      turn.resolve()
      for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve))
      expect(memory.take("b", 62 * MIB, limits.memory_bytes)).not.toBe(false)
    },
  )

  test("is given back when its events leave in one piece", async () => {
    const memory = new Memory(0)
    const { stream_relay, provider } = relay({
      response_bytes: 4 * MIB,
      memory: memory.answer("a", limits),
    })
    provider.send(answer)
    provider.close()
    expect(decoder.decode(await stream_relay.outlet.whole())).toContain(content)
    expect(memory.take("b", 62 * MIB, limits.memory_bytes)).not.toBe(false)
  })
})
