import { describe, expect, test } from "bun:test"
import { Pace } from "../../src/admission/memory.ts"

const MIB = 1_048_576
const PART = 131_072

/** Reads so many parts, and notes each. */
async function read(pace: Pace, account: string, parts: number, noted: string[]): Promise<void> {
  for (let part = 0; part < parts; part++) {
    noted.push(account)
    const turn = pace.read(account, PART)
    if (turn !== null) await turn
  }
}

describe("D78 reading large bodies", () => {
  test("a body that fits in a turn waits for nothing", () => {
    const pace = new Pace()
    expect(pace.read("one", PART)).toBeNull()
    expect(pace.read("one", PART)).toBeInstanceOf(Promise)
  })

  test("calls and parts of streams count too, however small: those of one account wait, and another has its turn", async () => {
    const pace = new Pace()
    const reads = Array.from({ length: 1_000 }, () => pace.read("hot", 2_048))
    expect(reads.filter((turn) => turn === null)).toHaveLength(127)
    let is_read = false
    const other = pace.read("cold", 2_048)?.then(() => {
      is_read = true
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(is_read).toBeTrue()
    await Promise.all([...reads, other])
  })

  test("in a turn of the event loop not much more than 256 KiB is read, however many bodies arrive", async () => {
    const [pace, noted] = [new Pace(), [] as string[]]
    const readers = Array.from({ length: 100 }, () => read(pace, "one", 10, noted))
    let is_done = false
    const all = Promise.all(readers).then(() => {
      is_done = true
    })
    // The first parts have come before anybody waits.
    expect(noted).toHaveLength(101)
    let most = 0
    for (let before = noted.length; !is_done; before = noted.length) {
      await new Promise((resolve) => setImmediate(resolve))
      most = Math.max(most, noted.length - before)
    }
    await all
    expect(most * PART).toBeLessThanOrEqual(MIB / 2)
    expect(noted).toHaveLength(1_000)
  })

  test("the body of another account gets its turn beside a hundred of one", async () => {
    const [pace, noted] = [new Pace(), [] as string[]]
    const readers = Array.from({ length: 100 }, () => read(pace, "hot", 50, noted))
    await read(pace, "cold", 10, noted)
    expect(noted.filter((account) => account === "hot").length).toBeLessThan(101 + 10 * 4)
    await Promise.all(readers)
  })

  test("a hundred large answers of one account keep the body of another waiting for a few turns only", async () => {
    const [pace, noted] = [new Pace(), [] as string[]]
    const answers = Array.from({ length: 100 }, () => pace.read("hot", 8 * MIB))
    let [turns, is_read] = [0, false]
    const body = read(pace, "cold", 1, noted).then(() => {
      is_read = true
    })
    for (; !is_read; turns++) await new Promise((resolve) => setImmediate(resolve))
    expect(turns).toBeLessThan(10)
    await Promise.all([...answers, body])
  })

  test("a hundred calls of another account do not wait each for one of its large bodies", async () => {
    const pace = new Pace()
    const bodies = Array.from({ length: 60 }, () => pace.read("hot", MIB / 2))
    let turns = 0
    let is_done = false
    const calls = Promise.all(Array.from({ length: 100 }, () => pace.read("cold", 2_048))).then(() => {
      is_done = true
    })
    for (; !is_done; turns++) await new Promise((resolve) => setImmediate(resolve))
    expect(turns).toBeLessThan(10)
    await Promise.all([...bodies, calls])
  })
})
