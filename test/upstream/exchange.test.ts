import { expect, test } from "bun:test"
import { Fields } from "../../src/upstream/http/answer-parser.ts"
import { Exchange } from "../../src/upstream/http/exchange.ts"
import { thrown } from "../support/thrown.ts"

const head = { status: 200, length: null, fields: new Fields(""), fault: null }

function begun() {
  const exchange = new Exchange()
  const seen: string[] = []
  exchange.begin({
    pause: () => void seen.push("pause"),
    resume: () => void seen.push("resume"),
    destroy: () => void seen.push("destroy"),
  })
  exchange.receiveHead(head)
  return { exchange, seen }
}

const bytes = (length: number) => new Uint8Array(length).fill(120)

test("a sender is slowed down once 64 KiB wait, and goes on when all of them were read", async () => {
  const { exchange, seen } = begun()
  exchange.push(bytes(65_536))
  expect(seen).toEqual([])
  exchange.push(bytes(1))
  exchange.push(bytes(1))
  expect(seen).toEqual(["pause"])
  await exchange.read()
  await exchange.read()
  expect(seen).toEqual(["pause"])
  await exchange.read()
  expect(seen).toEqual(["pause", "resume"])
})

test("a body that is asked for as a whole is not slowed down", async () => {
  const { exchange, seen } = begun()
  exchange.push(bytes(70_000))
  const whole = exchange.bytes()
  exchange.push(bytes(70_000))
  exchange.end()
  expect((await whole).byteLength).toBe(140_000)
  expect(seen).toEqual(["pause", "resume"])
})

test("a reader is told of the end, and everyone who comes later too", async () => {
  const { exchange } = begun()
  const waiting = exchange.read()
  exchange.end()
  expect(await waiting).toBeNull()
  expect(await exchange.read()).toBeNull()
  expect((await exchange.bytes()).byteLength).toBe(0)
})

test("what came before a break is read, then the break is told", async () => {
  const { exchange, seen } = begun()
  exchange.push(bytes(3))
  exchange.fail(new Error("reset"))
  expect((await exchange.read())?.byteLength).toBe(3)
  expect(String(await thrown(exchange.read()))).toContain("reset")
  expect(String(await thrown(exchange.bytes()))).toContain("reset")
  expect(seen).toEqual(["destroy"])
})

test("cancelling closes the connection once, tells whoever waits, and leaves an ended exchange alone", async () => {
  const { exchange, seen } = begun()
  const waiting = exchange.read()
  exchange.cancel()
  exchange.cancel()
  expect(await thrown(waiting)).toMatchObject({ code: "CANCELLED" })
  expect(seen).toEqual(["destroy"])

  const ended = begun()
  ended.exchange.end()
  ended.exchange.cancel()
  expect(ended.seen).toEqual([])
})

test("an exchange that was cancelled before it had a connection takes none", async () => {
  const exchange = new Exchange()
  exchange.cancel()
  expect(exchange.begin({ pause: () => {}, resume: () => {}, destroy: () => {} })).toBeFalse()
  expect(await thrown(exchange.head)).toMatchObject({ code: "CANCELLED" })
})

test("a connection whose sender was slowed down goes on for its next exchange", async () => {
  const { exchange, seen } = begun()
  exchange.push(bytes(70_000))
  exchange.end()
  expect(seen).toEqual(["pause", "resume"])
  expect((await exchange.read())?.byteLength).toBe(70_000)
  expect(seen).toEqual(["pause", "resume"])
})
