import { expect, spyOn, test } from "bun:test"
import { gzipSync } from "node:zlib"
import { Memory } from "../../src/admission/memory.ts"
import { GatewayError } from "../../src/errors.ts"
import { readBody } from "../../src/routes/request-body.ts"
import { thrown } from "../support/thrown.ts"

const BODY_BYTES = 8_388_608
const LIMITS = { body_bytes: BODY_BYTES, body_timeout_ms: 5_000, memory_bytes: 4 * BODY_BYTES }

test("D77 bodies that are refused while they arrive are freed without a collection", async () => {
  const memory = new Memory(LIMITS.memory_bytes)
  const collect = spyOn(Bun, "gc").mockImplementation(() => {})
  const parts: Uint8Array[] = []
  const refuse = async () => {
    const part = memory.of("one", LIMITS)
    const body = new ReadableStream({
      pull(controller) {
        const chunk = new Uint8Array(BODY_BYTES / 16)
        parts.push(chunk)
        controller.enqueue(chunk)
      },
    })
    const headers = { "content-type": "application/json" }
    const request = new Request("http://localhost", { method: "POST", body, headers })
    const error = await readBody(request, LIMITS, part).catch((thrown: unknown) => thrown)
    part.free()
    return error instanceof GatewayError ? error.code : error
  }
  // An account gets 15/16 of the memory; the first refusal finds nothing to collect, and may look once.
  for (let body = 0; body < 5; body++) expect(await refuse()).toBe("overloaded")
  expect(collect.mock.calls.length).toBeLessThanOrEqual(1)
  expect(parts.length).toBeGreaterThan(70)
  expect(parts.filter(({ byteLength }) => byteLength > 0).length).toBeLessThanOrEqual(2 * 5)
  collect.mockRestore()
})

test("D77 compressed bodies that are refused while they are decoded are freed without a collection, too", async () => {
  const memory = new Memory(0)
  const collect = spyOn(Bun, "gc").mockImplementation(() => {})
  const sent = gzipSync(Buffer.alloc(BODY_BYTES))
  const headers = { "content-type": "application/json", "content-encoding": "gzip" }
  for (let body = 0; body < 5; body++) {
    const part = memory.of("one", LIMITS)
    const request = new Request("http://localhost", { method: "POST", body: sent, headers })
    expect(await thrown(readBody(request, LIMITS, part))).toMatchObject({ code: "overloaded" })
    part.free()
  }
  expect(collect.mock.calls.length).toBeLessThanOrEqual(1)
  collect.mockRestore()
})

test("D77 a body waits until memory that another gave back is collected", async () => {
  const [memory, collect] = [new Memory(0), spyOn(Bun, "gc")]
  memory.answer("one", LIMITS).hold(3 * BODY_BYTES)
  const earlier = memory.of("one", LIMITS)
  await earlier.take((7 * BODY_BYTES) / 32)
  earlier.free()
  const body = "x".repeat(1_000_000)
  const headers = { "content-type": "application/json", "content-length": String(body.length) }
  const request = new Request("http://localhost", { method: "POST", body, headers })
  const reading = readBody(request, LIMITS, memory.of("two", LIMITS))
  expect([collect.mock.calls, request.bodyUsed]).toEqual([[], false])
  expect((await reading).byteLength).toBe(body.length)
  expect(collect.mock.calls).toEqual([[true]])
  expect(() => memory.of("three", LIMITS).take(BODY_BYTES / 4)).toThrow(GatewayError)
  collect.mockRestore()
})

test("D78 an account with small bodies does not wait for the memory that another gave back", async () => {
  const [memory, collect] = [new Memory(0), spyOn(Bun, "gc").mockImplementation(() => {})]
  memory.answer("hot", LIMITS).hold(3 * BODY_BYTES)
  const earlier = memory.of("hot", LIMITS)
  await earlier.take((7 * BODY_BYTES) / 32)
  earlier.free()
  expect(memory.of("cold", LIMITS).take(100_000)).toBeNull()
  expect(memory.of("hot", LIMITS).take(100_000)).toBeInstanceOf(Promise)
  // What an account gave back counts too, so that many small bodies in turn do not fill the memory.
  const many = Array.from({ length: 6 }, () => {
    const part = memory.of("many", LIMITS)
    const taken = part.take(100_000)
    if (taken === null) part.free()
    return taken
  })
  expect(many.map((taken) => taken === null)).toEqual([true, true, true, true, true, false])
  await Promise.all(many)
  expect(collect.mock.calls).toEqual([[true]])
  collect.mockRestore()
})

test("D77 collections that stop the event loop take 1 % of the time", async () => {
  let now_ms = 0
  const clock = spyOn(performance, "now").mockImplementation(() => now_ms)
  const collect = spyOn(Bun, "gc").mockImplementation(() => {
    now_ms += 40
  })
  const waits_ms: unknown[] = []
  const timer = spyOn(globalThis, "setTimeout")
  timer.mockImplementation(((next: () => void, wait_ms: number) => {
    waits_ms.push(wait_ms)
    queueMicrotask(next)
    return { unref() {} }
  }) as typeof setTimeout)
  const memory = new Memory(0)
  const small = { ...LIMITS, memory_bytes: 1_000_000 }
  for (const passed_ms of [0, 500, 5_000]) {
    now_ms += passed_ms
    const earlier = memory.of("hot", small)
    earlier.take(200_000)
    earlier.free()
    const waiting = memory.of("hot", small)
    await waiting.take(100_000)
    waiting.discard()
  }
  const collected = [...collect.mock.calls]
  for (const spy of [timer, collect, clock]) spy.mockRestore()
  expect(collected).toEqual(Array(3).fill([true]))
  expect(waits_ms).toEqual([0, 3_500, 0])
})

test("D77 a body of announced length takes its memory before it comes, or is refused", async () => {
  const [memory, limits] = [new Memory(0), { ...LIMITS, memory_bytes: 6 * BODY_BYTES, body_timeout_ms: 1 }]
  const read = async () => {
    const headers = { "content-type": "application/json", "content-length": String(BODY_BYTES) }
    const body = new ReadableStream({ pull: () => Promise.withResolvers<void>().promise })
    const request = new Request("http://localhost", { method: "POST", body, headers })
    await readBody(request, limits, memory.of("one", limits))
  }
  const ends = await Promise.allSettled([read(), read()])
  expect(ends).toMatchObject([{ reason: { code: "request_timeout" } }, { reason: { code: "overloaded" } }])
})

test("D77 a part of one byte takes memory for the value that it is", async () => {
  const limits = { ...LIMITS, memory_bytes: 1_048_576 }
  let parts = 0
  const body = new ReadableStream({
    pull(controller) {
      parts += 1
      controller.enqueue(Uint8Array.of(0))
    },
  })
  const headers = { "content-type": "application/json" }
  const request = new Request("http://localhost", { method: "POST", body, headers })
  expect(await thrown(readBody(request, limits, new Memory(0).of("one", limits)))).toMatchObject({
    code: "overloaded",
  })
  expect(parts).toBeLessThan(1_000)
})

test("D78 short chunks of a compressed body take turns", async () => {
  const part = new Memory(0).of("one", LIMITS)
  const read = spyOn(part, "read")
  const sent = gzipSync(crypto.getRandomValues(new Uint8Array(1_000)))
  const body = new ReadableStream({
    start(controller) {
      for (const byte of sent) controller.enqueue(Uint8Array.of(byte))
      controller.close()
    },
  })
  const headers = { "content-type": "application/json", "content-encoding": "gzip" }
  const request = new Request("http://localhost", { method: "POST", body, headers })
  expect(await readBody(request, LIMITS, part)).toHaveLength(1_000)
  expect(read.mock.calls.length).toBeGreaterThan(sent.length)
})
