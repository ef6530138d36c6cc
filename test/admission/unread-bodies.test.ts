import { beforeEach, describe, expect, test } from "bun:test"
import { Memory } from "../../src/admission/memory.ts"
import { type EndOfWait, UnreadBodies } from "../../src/admission/unread-bodies.ts"
import { GatewayError } from "../../src/errors.ts"
import { refusal } from "../../src/routes/request-body.ts"
import { networkOf } from "../../src/service/server.ts"
import { until } from "../support/gateway.ts"

const LARGE = new Headers({ "content-length": "20000000" })
const ENDLESS = new Headers({ "transfer-encoding": "chunked" })
const SHORT = new Headers({ "content-length": "65536" })
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

describe("D77 large bodies of keys that nobody has", () => {
  let unread: UnreadBodies
  beforeEach(() => {
    unread = new UnreadBodies(PLENTY_BYTES)
    unread.wait(LARGE, "10.0.0.1")?.(true)
  })

  test("wait without a limit of their own until one is refused", () => {
    expect(waiting(new UnreadBodies(PLENTY_BYTES), "10.0.0.1", 60)).toHaveLength(2 * PLACES)
  })

  test("then addresses share the places", () => {
    expect(waiting(unread, "10.0.0.1", 60)).toHaveLength(PLACES - 1)
    expect(waiting(unread, "10.0.0.2", 60)).toHaveLength(1)
    expect(waiting(unread, "10.0.0.3", 60)).toHaveLength(0)
  })

  test("short ones, and those of known keys, need no such place", () => {
    waiting(unread, "10.0.0.1", 60)
    expect(waiting(unread, null, 9)).toHaveLength(9)
    expect(unread.wait(SHORT, "10.0.0.1")).toBeFunction()
  })

  test("keep their places for a second, unless somebody has the key", async () => {
    const [first, second, ...others] = waiting(unread, "10.0.0.1", 60)
    first?.(false)
    expect(waiting(unread, "10.0.0.1", 9)).toHaveLength(1)
    second?.(true)
    expect(waiting(unread, "10.0.0.1", 9)).toHaveLength(0)
    for (const done of others) done(true)
    let free = 0
    await until(
      () => (free += waiting(unread, "10.0.0.1", 60).length),
      () => free === PLACES - 2,
    )
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
    const gateway = {
      memory: new Memory(0),
      sockets: { keepOpen() {}, restore() {}, cut() {}, address: () => "10.0.0.1" },
    }
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

  test("are given time to end only while there is memory for them", async () => {
    expect(await refuse(() => Promise.withResolvers<void>().promise, 2 * PLACES)).toBe(PLACES)
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
