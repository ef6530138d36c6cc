import { beforeEach, describe, expect, test } from "bun:test"
import { Memory } from "../../src/admission/memory.ts"
import { arrivedBytes, type EndOfWait, UnreadBodies } from "../../src/admission/unread-bodies.ts"
import { GatewayError } from "../../src/errors.ts"
import { refusal } from "../../src/routes/request-body.ts"
import { networkOf } from "../../src/service/server.ts"
import { untilIs } from "../support/gateway.ts"

const LARGE = new Headers({ "content-length": "20000000" })
const ENDLESS = new Headers({ "transfer-encoding": "chunked" })
const MIDDLE = new Headers({ "content-length": "200000" })
const SHORT = new Headers({ "content-length": "65536" })
/** What comes of a large body while its key is looked up. */
const ARRIVED_BYTES = 1_572_864
/** Bodies of 1.5 MiB in 12 MiB. */
const LINGERING = 8
/** Bodies of 1.5 MiB in 24 MiB. */
const PLACES = 16
const PLENTY_BYTES = 1_073_741_824

test("D77 of refused bodies whose clients read the answer, only so many are kept that they take 12 MiB", () => {
  const unread = new UnreadBodies(0)
  const removes = Array.from({ length: LINGERING + 1 }, () => unread.linger(LARGE))
  expect(removes.indexOf(null)).toBe(LINGERING)
  removes[0]?.()
  expect(unread.linger(ENDLESS)).toBeFunction()
  expect(unread.linger(LARGE)).toBeNull()
  expect(unread.linger(new Headers())).toBeFunction()
})

/** The bodies of an address that get a place, of so many that come. */
function waiting(unread: UnreadBodies, address: string | null, count: number): EndOfWait[] {
  return Array.from({ length: count }, () => unread.wait(LARGE, address)).filter((done) => done !== null)
}

test("D77 bodies that wait take an eighth of the default memory: at least 24 MiB, at most 48", () => {
  const places = [0, 24 * 8 * 1_572_864, PLENTY_BYTES].map((default_bytes) => {
    return waiting(new UnreadBodies(default_bytes), null, 60).length
  })
  expect(places).toEqual([PLACES, 24, 2 * PLACES])
})

test("D77 of bodies whose keys are looked up, an address leaves some memory to others, and to keys that are remembered", () => {
  const unread = new UnreadBodies(PLENTY_BYTES)
  expect(waiting(unread, "10.0.0.1", 60)).toHaveLength(2 * PLACES - 2)
  expect(unread.wait(SHORT, "10.0.0.1")).toBeFunction()
  expect(unread.wait(MIDDLE, "10.0.0.2")).toBeFunction()
  expect(unread.wait(LARGE, null)).toBeFunction()
})

describe("D77 large bodies of keys that nobody has", () => {
  let unread: UnreadBodies
  beforeEach(() => {
    unread = new UnreadBodies(PLENTY_BYTES)
  })
  /** As many as come one after the other, of which so much arrives, until one gets no place. */
  const lookedUp = (address: string, arrived_bytes: number, count: number) => {
    const places = Array.from({ length: count }, () => {
      const done = unread.wait(LARGE, address)
      done?.(arrived_bytes)
      return done
    })
    return places.filter((done) => done !== null).length
  }

  test.each([20, 200, 2_000])("%d of which nothing arrives refuse nobody", (count) => {
    expect(lookedUp("10.0.0.1", 0, count)).toBe(count)
    for (const headers of [LARGE, ENDLESS, MIDDLE, SHORT])
      expect(unread.wait(headers, "10.0.0.1")).toBeFunction()
  })

  test("of which much arrives are limited by address, until a second has passed", async () => {
    expect(lookedUp("10.0.0.1", ARRIVED_BYTES, 99)).toBe(2 * PLACES - 2)
    expect(lookedUp("10.0.0.2", ARRIVED_BYTES, 99)).toBe(2)
    await untilIs(() => lookedUp("10.0.0.1", 0, 1), 1)
  })

  test("do not limit those of up to 1 MiB, nor those of remembered keys", () => {
    lookedUp("10.0.0.1", ARRIVED_BYTES, 99)
    expect(waiting(unread, "10.0.0.1", 1)).toHaveLength(0)
    expect(unread.wait(MIDDLE, "10.0.0.1")).toBeFunction()
    expect(unread.wait(SHORT, "10.0.0.1")).toBeFunction()
    expect(waiting(unread, null, 9)).toHaveLength(9)
  })

  test.each([
    ["nothing of a body that was only announced", LARGE, 0, 0],
    ["what came of it", LARGE, 300_000, 300_000],
    ["what came of one without a length", ENDLESS, 300_000, 300_000],
    ["nothing of a short one, which is not read", MIDDLE, 200_000, 0],
  ])("count as %s", async (_, headers, sent_bytes, counted_bytes) => {
    const body = new ReadableStream({
      start(controller) {
        if (sent_bytes > 0) controller.enqueue(new Uint8Array(sent_bytes))
      },
    })
    const request = new Request("http://localhost", { method: "POST", body, headers })
    expect(await arrivedBytes(request)).toBe(counted_bytes)
    expect(request.body?.locked).toBe(false)
  })
})

test("D77 a network of 64 bits is one address, however it is written", () => {
  const networks = ["2001:db8:0:1:2:3:4:5", "2001:db8:0:1::5", "2001:db8::1:0:0:0:9"].map(networkOf)
  expect(new Set(networks)).toEqual(new Set(["2001:db8:0:1"]))
  expect(["::1", "1::", "1:2:3::8", "10.0.0.1", "::ffff:10.0.0.1", ""].map(networkOf)).toEqual([
    "0:0:0:0",
    "1:0:0:0",
    "1:2:3:0",
    "10.0.0.1",
    "::ffff:10.0.0.1",
    "",
  ])
})

describe("D77 refused bodies without a length", () => {
  const fault = new GatewayError("invalid_api_key")
  type Pull = (controller: ReadableStreamDefaultController<Uint8Array>) => Promise<void> | void
  const refuse = async (pull: Pull, count = 1) => {
    const gateway = { memory: new Memory(0) }
    const requests = Array.from({ length: count }, () => {
      const body = new ReadableStream({ pull })
      return new Request("http://localhost", { method: "POST", body, headers: ENDLESS })
    })
    const answers = Promise.all(requests.map((request) => refusal(request, fault, gateway)))
    const read = requests.filter(({ body }) => body?.locked).length
    for (const { status, headers } of await answers)
      expect([status, headers.get("connection")]).toEqual([401, "close"])
    return read
  }

  test.each([0, PLENTY_BYTES])(
    "leave half of the memory to those whose keys are looked up: of %p bytes",
    (bytes) => {
      const unread = new UnreadBodies(bytes)
      const ends = Array.from({ length: 60 }, () => unread.end(ENDLESS)).filter((done) => done !== null)
      const places = bytes === 0 ? PLACES / 2 : PLACES
      expect(ends).toHaveLength(places)
      expect(waiting(unread, "10.0.0.1", 60).length).toBeGreaterThanOrEqual(places - 2)
    },
  )

  test("are given time to end only while there is memory for them", async () => {
    expect(await refuse(() => Promise.withResolvers<void>().promise, 2 * PLACES)).toBe(PLACES / 2)
  })

  test("are read for a few parts only, however short those are", async () => {
    let parts = 0
    await refuse((controller) => {
      parts += 1
      controller.enqueue(Uint8Array.of(0))
    })
    expect(parts).toBeLessThan(300)
  })
})
