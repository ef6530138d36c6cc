import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { appendFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import type { Closing } from "../../src/ledger/entries.ts"
import { Spool } from "../../src/ledger/journal/spool.ts"
import { lineOf, parseLine } from "../../src/ledger/journal/spool.ts"
import { bases, endings, failures, notes } from "../../src/wire/call.ts"
import {
  type Account,
  call,
  holdOf,
  lockAccount,
  openBooks,
  settled,
  silent,
  type TestBooks,
  violations,
} from "./books.ts"

/** D27: a closing that the books do not take is on the disk, survives its process, and reaches the books once. */

let books: TestBooks

beforeAll(async () => {
  books = await openBooks()
})
afterAll(() => books.close())
afterEach(async () => {
  expect(await violations(books.sql)).toEqual([])
})

const RENEWING = { renew_ms: 20, expire_ms: 60_000 }

/** What a log is told. */
function listening() {
  const errors: string[] = []
  return { errors, log: { ...silent, error: (_: object, message: string) => void errors.push(message) } }
}

const spooled = (closing: Closing, account_id = "a") => ({ account_id, closing })
const filesIn = (data_dir: string) => readdir(join(data_dir, "spool")).catch(() => [])

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5))
}

describe("a line", () => {
  const words = <Word extends string>(list: readonly Word[]) => fc.constantFrom(...list)
  const count = fc.nat()
  const closing: fc.Arbitrary<Closing> = fc.record({
    id: fc.uuid(),
    outcome: words(["settled", "released"] as const),
    charge_nano: fc.bigInt(0n, 2n ** 63n - 1n),
    basis: words(bases),
    ending: fc.option(words(endings)),
    failure: fc.option(words(failures)),
    notes: fc.array(words(notes)),
    usage: fc.option(fc.record({ prompt_tokens: count, cached_tokens: count, completion_tokens: count })),
    upstream: fc.option(fc.string()),
    ttft_ms: fc.option(count),
    duration_ms: count,
  })

  test("reads as it was written, whatever the closing, to the last nano", () => {
    fc.assert(
      fc.property(closing, (one) => {
        const line = lineOf(spooled(one))
        expect(line.indexOf("\n")).toBe(line.length - 1)
        expect(parseLine(line.trimEnd())).toEqual(spooled(one))
      }),
    )
  })

  test("cut anywhere is no line", () => {
    const line = lineOf(spooled(settled(nextId(), 12n))).trimEnd()
    for (let length = 0; length < line.length; length++) expect(parseLine(line.slice(0, length))).toBeNull()
  })

  test.each([
    ["no object", "[]"],
    ["an amount as a number", lineOf(spooled(settled(nextId(), 12n))).replace('"12"', "12")],
    ["a negative amount", lineOf(spooled(settled(nextId(), 12n))).replace('"12"', '"-12"')],
    ["an outcome that is none", lineOf(spooled(settled(nextId(), 12n))).replace('"settled"', '"open"')],
    ["an id that is none", lineOf(spooled(settled("me", 12n)))],
  ])("with %s is not taken", (_, text) => {
    expect(parseLine(text.trimEnd())).toBeNull()
  })
})

describe("the file of a process", () => {
  test("holds what is kept, line by line, and is gone when nothing is", async () => {
    const data_dir = await books.folder()
    const own_id = nextId()
    const spool = new Spool(data_dir, own_id, silent)
    const closings = [settled(nextId(), 1n), settled(nextId(), 2n), settled(nextId(), 3n)]
    for (const closing of closings) expect(spool.keep(spooled(closing))).toBe(true)
    expect(spool.keep(spooled(settled(closings[0]?.id ?? "", 9n)))).toBe(false)
    await spool.settled()
    expect(await filesIn(data_dir)).toEqual([`${own_id}.jsonl`])
    const others = await new Spool(data_dir, nextId(), silent).others()
    expect(others.map(({ closings: read }) => read)).toEqual([closings.map((closing) => spooled(closing))])

    for (const { id } of closings) spool.done(id)
    await spool.settled()
    expect(spool.depth).toBe(0)
    expect(await filesIn(data_dir)).toEqual([])
  })

  test("is made with all folders above it", async () => {
    const data_dir = join(await books.folder(), "not", "there")
    const spool = new Spool(data_dir, nextId(), silent)
    spool.keep(spooled(settled(nextId(), 1n)))
    await spool.settled()
    expect(await filesIn(data_dir)).toHaveLength(1)
  })

  test("is made anew for what is kept while it is removed", async () => {
    const data_dir = await books.folder()
    const spool = new Spool(data_dir, nextId(), silent)
    const [first, second] = [settled(nextId(), 1n), settled(nextId(), 2n)]
    spool.keep(spooled(first))
    await spool.settled()
    spool.done(first.id)
    spool.keep(spooled(second))
    await spool.settled()
    const [file] = await new Spool(data_dir, nextId(), silent).others()
    expect(file?.closings).toEqual([spooled(second)])
  })

  test("is not read by itself, and nothing else in its folder is", async () => {
    const data_dir = await books.folder()
    const spool = new Spool(data_dir, nextId(), silent)
    spool.keep(spooled(settled(nextId(), 1n)))
    await spool.settled()
    await writeFile(join(data_dir, "spool", "notes.jsonl"), "{}\n")
    expect(await spool.others()).toEqual([])
  })

  test("with a torn last line gives the others", async () => {
    const data_dir = await books.folder()
    const path = join(data_dir, "spool", `${nextId()}.jsonl`)
    await mkdir(join(data_dir, "spool"))
    const whole = settled(nextId(), 1n)
    await writeFile(path, lineOf(spooled(whole)) + lineOf(spooled(settled(nextId(), 2n))).slice(0, 40))
    const [file] = await new Spool(data_dir, nextId(), silent).others()
    expect(file).toMatchObject({ closings: [spooled(whole)], unreadable: 1 })
  })

  test("is written again when somebody removed it in the middle of things", async () => {
    const data_dir = await books.folder()
    const own_id = nextId()
    const spool = new Spool(data_dir, own_id, silent)
    spool.keep(spooled(settled(nextId(), 1n)))
    await spool.settled()
    await rm(join(data_dir, "spool", `${own_id}.jsonl`))
    const second = settled(nextId(), 2n)
    spool.keep(spooled(second))
    await spool.settled()
    expect(await readFile(join(data_dir, "spool", `${own_id}.jsonl`), "utf8")).toContain(second.id)
  })

  test("that has grown since it was read is not removed", async () => {
    const data_dir = await books.folder()
    const path = join(data_dir, "spool", `${nextId()}.jsonl`)
    await mkdir(join(data_dir, "spool"))
    await writeFile(path, lineOf(spooled(settled(nextId(), 1n))))
    const spool = new Spool(data_dir, nextId(), silent)
    const [file] = await spool.others()
    if (file === undefined) throw new Error("no file")
    await appendFile(path, lineOf(spooled(settled(nextId(), 2n))))
    await spool.remove(file)
    expect(await filesIn(data_dir)).toHaveLength(1)
  })

  test("loses nothing to others who remove what they have read while it is written", async () => {
    const data_dir = await books.folder()
    const [spool, other] = [new Spool(data_dir, nextId(), silent), new Spool(data_dir, nextId(), silent)]
    const read = new Set<string>()
    const readAll = async () => {
      const files = await other.others()
      for (const { closings } of files) for (const { closing } of closings) read.add(closing.id)
      return files
    }
    const kept: string[] = []
    let keeping = true
    const removing = (async () => {
      while (keeping) for (const file of await readAll()) await other.remove(file)
    })()
    while (kept.length < 200) {
      const closing = settled(nextId(), 1n)
      kept.push(closing.id)
      spool.keep(spooled(closing))
      await spool.settled()
    }
    keeping = false
    await removing
    await readAll()
    expect(kept.filter((id) => !read.has(id))).toEqual([])
  })

  test("that cannot be written is an error once, and the closings stay in memory", async () => {
    const data_dir = await books.folder()
    await writeFile(join(data_dir, "spool"), "a file where the folder should be")
    const { errors, log } = listening()
    const own_id = nextId()
    const spool = new Spool(data_dir, own_id, log)
    for (let at = 0; at < 3; at++) {
      spool.keep(spooled(settled(nextId(), 1n)))
      await spool.settled()
    }
    expect(errors).toEqual(["the spool cannot be written; closings are kept in memory only"])
    expect(spool.depth).toBe(3)

    // What was written of a line before the disk was full does not spoil the next one.
    await rm(join(data_dir, "spool"))
    await mkdir(join(data_dir, "spool"))
    await writeFile(join(data_dir, "spool", `${own_id}.jsonl`), '{"account_id":"a","clos')
    spool.keep(spooled(settled(nextId(), 1n)))
    await spool.settled()
    const [file] = await new Spool(data_dir, nextId(), silent).others()
    expect(file?.closings).toHaveLength(4)
  })

  test("that could not be written, for a closing that reached the books all the same, is written the next time", async () => {
    const data_dir = await books.folder()
    await writeFile(join(data_dir, "spool"), "in the way")
    const spool = new Spool(data_dir, nextId(), silent)
    const [first, second] = [settled(nextId(), 1n), settled(nextId(), 2n)]
    spool.keep(spooled(first))
    await spool.settled()
    spool.keep(spooled(second))
    await spool.settled()
    spool.done(first.id)
    spool.done(second.id)
    await rm(join(data_dir, "spool"))
    const third = settled(nextId(), 3n)
    spool.keep(spooled(third))
    await spool.settled()
    const [file] = await new Spool(data_dir, nextId(), silent).others()
    expect(file?.closings).toEqual([spooled(third)])
  })
})

describe("what another process left", () => {
  /** A process that reserved, could not settle, and died. */
  async function left(data_dir: string, charges: readonly bigint[], account?: Account) {
    const payer = account ?? (await books.account(1_000n))
    const ledger = await books.ledger()
    const holds = charges.map(() => holdOf(payer, 100n))
    for (const hold of holds) await ledger.reserve(hold)
    const { gateway_id } = (await call(books.sql, holds[0]?.id ?? "")) ?? {}
    await ledger.stop()
    const spool = new Spool(data_dir, gateway_id, silent)
    for (const [at, { id }] of holds.entries()) {
      spool.keep(spooled(settled(id, charges[at] ?? 0n), payer.account_id))
    }
    await spool.settled()
    return { gateway_id, holds, ids: holds.map(({ id }) => id) }
  }
  const charges = async (ids: readonly string[]) =>
    Promise.all(ids.map(async (id) => (await call(books.sql, id))?.charge_nano))

  test("is in the books at the next start; its file goes once its gateway is dead", async () => {
    const data_dir = await books.folder()
    const { gateway_id, ids } = await left(data_dir, [7n, 8n])
    await appendFile(join(data_dir, "spool", `${gateway_id}.jsonl`), '{"account_id":')
    const { errors, log } = listening()
    await books.ledger({ data_dir, log, lease: RENEWING })
    await until(async () => (await charges(ids)).every((charge) => charge !== null))
    expect(await charges(ids)).toEqual(["7", "8"])
    expect(await filesIn(data_dir)).toHaveLength(1)
    await books.sql`UPDATE tollgate.gateways SET dead_at = now(), swept_at = now() WHERE id = ${gateway_id}`
    await until(async () => (await filesIn(data_dir)).length === 0)
    expect(errors).toEqual(["the spool has lines that cannot be read"])
  })

  test("is in the books before its file goes, although an earlier file of that name and length was there before", async () => {
    const data_dir = await books.folder()
    const account = await books.account(1_000n)
    const { gateway_id, ids } = await left(data_dir, [7n], account)
    const path = join(data_dir, "spool", `${gateway_id}.jsonl`)
    await books.ledger({ data_dir, lease: RENEWING })
    await until(async () => (await charges(ids))[0] === "7")
    const ledger = await books.ledger()
    const later = holdOf(account, 100n)
    await ledger.reserve(later)
    await writeFile(join(data_dir, "later"), lineOf(spooled(settled(later.id, 8n), account.account_id)))
    await rename(join(data_dir, "later"), path)
    await books.sql`UPDATE tollgate.gateways SET dead_at = now(), swept_at = now() WHERE id = ${gateway_id}`
    await until(async () => (await filesIn(data_dir)).length === 0)
    expect(await charges([later.id])).toEqual(["8"])
  })

  test("replaces what expiry charged, once, however often it is replayed", async () => {
    const data_dir = await books.folder()
    const { gateway_id, ids } = await left(data_dir, [7n])
    await books.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${gateway_id}`
    const ignored = { count: 0 }
    const events = { closingIgnored: () => void ignored.count++ }
    const sweeping = await books.ledger({ lease: RENEWING })
    await until(async () => (await call(books.sql, ids[0] ?? ""))?.state === "expired")
    await sweeping.stop()
    await Promise.all([books.ledger({ data_dir, events }), books.ledger({ data_dir, events })])
    await until(async () => ignored.count === 1 && (await charges(ids))[0] === "7")
    expect(await call(books.sql, ids[0] ?? "")).toMatchObject({ state: "settled", notes: ["settled_late"] })
  })

  test("and could not be written before the books were closed is no error, and there for the next one", async () => {
    const data_dir = await books.folder()
    const account = await books.account(1_000n)
    const { ids } = await left(data_dir, [7n, 8n], account)
    const { errors, log } = listening()
    const lock = await lockAccount(books.sql, account.account_id)
    const closing = Promise.withResolvers<void>()
    const statement = (kind: string) => void (kind === "close" && closing.resolve())
    const ledger = await books.ledger({ data_dir, log, events: { statement } })
    await closing.promise
    await ledger.stop()
    expect(errors).toEqual([])
    await lock.unlock()
    await books.ledger({ data_dir })
    await until(async () => (await charges(ids)).every((charge) => charge !== null))
    expect(await charges(ids)).toEqual(["7", "8"])
  })

  test("of other books is left alone, even if its gateway should be dead", async () => {
    const data_dir = await books.folder()
    const gateway_id = await books.gateway()
    await books.sql`UPDATE tollgate.gateways SET dead_at = now(), swept_at = now() WHERE id = ${gateway_id}`
    await mkdir(join(data_dir, "spool"))
    await writeFile(join(data_dir, "spool", `${gateway_id}.jsonl`), lineOf(spooled(settled(nextId(), 1n))))
    const { errors, log } = listening()
    let renewals = 0
    const statement = (kind: string) => {
      if (kind === "lease") renewals += 1
    }
    await books.ledger({ data_dir, log, lease: RENEWING, events: { statement } })
    await until(async () => errors.length > 0 && renewals > 5)
    expect(errors).toEqual(["the spool has closings of other books; it stays"])
    expect(await filesIn(data_dir)).toHaveLength(1)
  })

  test("two gateways on one data directory spool and replay side by side", async () => {
    const data_dir = await books.folder()
    const account = await books.account(10_000n)
    const ledgers = await Promise.all([
      books.ledger({ data_dir, lease: RENEWING }),
      books.ledger({ data_dir, lease: RENEWING }),
    ])
    const { ids } = await left(data_dir, [1n, 2n, 3n], account)
    const holds = await Promise.all(
      ledgers.map(async (ledger) => {
        const hold = holdOf(account, 5n)
        await ledger.reserve(hold)
        await ledger.close(settled(hold.id, 5n))
        return hold.id
      }),
    )
    await until(async () => (await charges(ids)).every((charge) => charge !== null))
    expect(await charges([...ids, ...holds])).toEqual(["1", "2", "3", "5", "5"])
  })
})

test("a process that is killed with a settlement it could not write: the next one writes it", async () => {
  const data_dir = await books.folder()
  const account = await books.account(1_000n)
  const child = Bun.spawn({
    cmd: [process.execPath, join(import.meta.dir, "spooling-gateway.ts")],
    stdin: new Blob([JSON.stringify({ address: books.address, data_dir, account })]),
    stdout: "pipe",
    stderr: "inherit",
  })
  let said = ""
  const decoder = new TextDecoder()
  for await (const bytes of child.stdout) {
    said += decoder.decode(bytes, { stream: true })
    if (said.includes("\n")) break
  }
  child.kill("SIGKILL")
  await child.exited
  const id = said.trim()
  expect(await call(books.sql, id)).toMatchObject({ state: "open" })
  await books.ledger({ data_dir })
  await until(async () => (await call(books.sql, id))?.state === "settled")
  expect(await call(books.sql, id)).toMatchObject({ charge_nano: "77", notes: [] })
})
