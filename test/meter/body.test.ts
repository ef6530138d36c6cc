import { expect, test } from "bun:test"
import { Cutoff } from "../../src/call/cutoff.ts"
import { collect } from "../../src/meter/body.ts"
import { chat } from "../../src/operations/chat.ts"

/** What is held of a body of these parts, in order. */
async function heldOf(parts: readonly Uint8Array[], length: number | null, limit_bytes: number) {
  const held: number[] = []
  const left = [...parts]
  const source = {
    arrived: false,
    read: () => left.shift() ?? null,
    bytes: async () => Buffer.concat(parts),
    cancel: () => {},
  }
  const { bytes } = await collect({
    source,
    length,
    limit_bytes,
    read_bytes: Number.POSITIVE_INFINITY,
    form: chat.json,
    total_ms: 60_000,
    began_ms: performance.now(),
    unwanted: new Cutoff(),
    memory: {
      hold(bytes) {
        held.push(bytes)
        return null
      },
      stop: () => {},
    },
  })
  return { held, length: bytes.byteLength }
}

const PARTS = [1, 2, 3].map((number) => Buffer.alloc(number * 100_000))

test("D77 an answer holds its announced length, or what came of it; over the limit nothing", async () => {
  const copies = () => PARTS.map((part) => Buffer.from(part))
  expect(await heldOf(copies(), 600_000, 600_000)).toEqual({ held: [600_000], length: 600_000 })
  expect(await heldOf(copies(), null, 600_000)).toEqual({
    held: [100_000, 300_000, 600_000],
    length: 600_000,
  })
  expect(await heldOf(copies(), 600_000, 300_000)).toEqual({
    held: [100_000, 300_000, 0],
    length: 0,
  })
})

test("large parts of an answer are freed when they are joined", async () => {
  const parts = PARTS.map((part) => Buffer.from(part))
  await heldOf(parts, null, 600_000)
  expect(parts.map(({ byteLength }) => byteLength)).toEqual([0, 0, 0])
})

test("D31 an answer whose total timeout is over already ends by it, without a warning of the runtime", async () => {
  const warnings: Error[] = []
  const warn = (warning: Error) => warnings.push(warning)
  process.on("warning", warn)
  const over = Promise.withResolvers<never>()
  const { ending } = await collect({
    source: {
      read: () => null,
      bytes: () => over.promise,
      cancel: () => over.reject(new Error("cancelled")),
    },
    length: 1,
    limit_bytes: 1,
    read_bytes: 1,
    form: chat.json,
    total_ms: 1_000,
    began_ms: performance.now() - 2_000,
    unwanted: new Cutoff(),
    memory: null,
  })
  await Bun.sleep(0)
  process.off("warning", warn)
  expect({ ending, warnings }).toEqual({ ending: "deadline", warnings: [] })
})
