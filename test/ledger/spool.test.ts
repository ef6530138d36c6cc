import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { appendFile, mkdir, readFile, rm, writeFile } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import type { End, Hold } from "../../src/ledger/entries.ts"
import type { LedgerLog } from "../../src/ledger/events.ts"
import { lineOf, parseLine, Spool } from "../../src/ledger/queue/spool.ts"
import { attemptFailures, bases, endings, failures, notes } from "../../src/wire/call.ts"
import { filesIn, listening, settled, silent, spooledEnd, testDatabase } from "./test-database.ts"

/** D27: an end that the ledger does not take is on the disk, survives its process, and is read by others. */

const db = await testDatabase()

describe("a line", () => {
  const words = <Word extends string>(list: readonly Word[]) => fc.constantFrom(...list)
  const count = fc.nat()
  const anyEnd: fc.Arbitrary<End> = fc.record({
    id: fc.uuid(),
    outcome: words(["settled", "released"] as const),
    charge_nano: fc.bigInt(0n, 2n ** 63n - 1n),
    basis: words(bases),
    ending: fc.option(words(endings)),
    failure: fc.option(words(failures)),
    notes: fc.array(words(notes)),
    usage: fc.option(fc.record({ prompt_tokens: count, cached_tokens: count, completion_tokens: count })),
    details: fc.record({
      request_id: fc.string(),
      attempts: fc.array(
        fc.record({ upstream: fc.string(), key: fc.string(), failure: words(attemptFailures), ms: count }),
      ),
      unread: fc.array(fc.string()),
      unexplained_tokens: fc.integer(),
      provider_cost_nano: fc.bigInt(0n, 10n ** 60n).map(String),
      estimate: fc.record({ output_bytes: count, prompt_bytes: count, bytes_per_token: count }),
    }),
    terms_id: fc.option(fc.integer({ min: 1, max: 2 ** 31 - 1 })),
    ttft_ms: fc.option(count),
    duration_ms: count,
    freed_key_hash: fc.option(fc.constantFrom("0".repeat(64), "9f".repeat(32))),
  })

  const anyHold: fc.Arbitrary<Hold> = fc.record({
    id: fc.uuid(),
    account_id: fc.uuid(),
    key_id: fc.uuid(),
    amount_nano: fc.bigInt(0n, 2n ** 63n - 1n),
    terms_id: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
    stream: fc.boolean(),
    idempotency: fc.option(fc.record({ key_hash: fc.string(), body_hash: fc.string() })),
  })

  test("reads as it was written, whatever the end and its hold, to the last nano", () => {
    fc.assert(
      fc.property(anyEnd, fc.option(anyHold), (one, hold) => {
        const line = lineOf(spooledEnd(one, "a", hold))
        expect(line.indexOf("\n")).toBe(line.length - 1)
        expect(parseLine(line.trimEnd())).toEqual(spooledEnd(one, "a", hold))
      }),
    )
  })

  test("of version 0.2 has no hold", () => {
    const one = settled(nextId(), 12n)
    expect(parseLine(lineOf(spooledEnd(one)).replace(',"hold":null', "").trimEnd())).toEqual(spooledEnd(one))
  })

  test("cut anywhere is no line", () => {
    const line = lineOf(spooledEnd(settled(nextId(), 12n))).trimEnd()
    for (let length = 0; length < line.length; length++) expect(parseLine(line.slice(0, length))).toBeNull()
  })

  test.each([
    ["no object", "[]"],
    ["an amount as a number", lineOf(spooledEnd(settled(nextId(), 12n))).replace('"12"', "12")],
    ["a negative amount", lineOf(spooledEnd(settled(nextId(), 12n))).replace('"12"', '"-12"')],
    ["an outcome that is none", lineOf(spooledEnd(settled(nextId(), 12n))).replace('"settled"', '"open"')],
    ["an id that is none", lineOf(spooledEnd(settled("me", 12n)))],
  ])("with %s is not taken", (_, text) => {
    expect(parseLine(text.trimEnd())).toBeNull()
  })
})

describe("the file of a process", () => {
  /** The spool of a process, its file, and that of another process, which reads it. */
  async function opened(log: LedgerLog = silent) {
    const [data_dir, own_id] = [await db.folder(), nextId()]
    const path = join(data_dir, "spool", `${own_id}.jsonl`)
    const other = new Spool(data_dir, nextId(), silent)
    const read = async () => (await other.others())[0]
    return { data_dir, path, spool: new Spool(data_dir, own_id, log), other, read }
  }

  /** The same, where the process has left a file. */
  async function left(text: string) {
    const made = await opened()
    await mkdir(dirname(made.path))
    await writeFile(made.path, text)
    return made
  }

  test("holds what is kept, line by line, and is gone when nothing is", async () => {
    const { data_dir, path, spool, read } = await opened()
    const ends = [settled(nextId(), 1n), settled(nextId(), 2n), settled(nextId(), 3n)]
    for (const end of ends) expect(spool.add(spooledEnd(end))).toBe(true)
    expect(spool.add(spooledEnd(settled(ends[0]?.id ?? "", 9n)))).toBe(false)
    await spool.settled()
    expect(await filesIn(data_dir)).toEqual([basename(path)])
    expect((await read())?.ends).toEqual(ends.map((end) => spooledEnd(end)))

    for (const { id } of ends) spool.delete(id)
    await spool.settled()
    expect(spool.depth).toBe(0)
    expect(await filesIn(data_dir)).toEqual([])
  })

  test("has each end when it is said to be written, however many come at once", async () => {
    const { path, spool } = await opened()
    const ends = Array.from({ length: 40 }, () => settled(nextId(), 1n))
    let written = 0
    await Promise.all(
      ends.map(async (end, at) => {
        for (let turn = 0; turn < at; turn++) await Promise.resolve()
        spool.add(spooledEnd(end))
        await spool.synced(end.id)
        expect(readFileSync(path, "utf8")).toContain(end.id)
        written += 1
      }),
    )
    expect(written).toBe(40)
    await spool.synced(nextId())
  })

  test("lets nobody wait for an end that is done, or that the disk refuses", async () => {
    const data_dir = await db.folder()
    await writeFile(join(data_dir, "file"), "")
    for (const spool of [
      new Spool(data_dir, nextId(), silent),
      new Spool(join(data_dir, "file"), nextId(), silent),
    ]) {
      const ends = [settled(nextId(), 1n), settled(nextId(), 2n)]
      for (const end of ends) spool.add(spooledEnd(end))
      const waiting = ends.map(({ id }) => spool.synced(id))
      spool.delete(ends[1]?.id ?? "")
      await Promise.all(waiting)
    }
  })

  test("is made with all folders above it", async () => {
    const data_dir = join(await db.folder(), "not", "there")
    const spool = new Spool(data_dir, nextId(), silent)
    spool.add(spooledEnd(settled(nextId(), 1n)))
    await spool.settled()
    expect(await filesIn(data_dir)).toHaveLength(1)
  })

  test("is made anew for what is kept while it is removed", async () => {
    const { spool, read } = await opened()
    const [first, second] = [settled(nextId(), 1n), settled(nextId(), 2n)]
    spool.add(spooledEnd(first))
    await spool.settled()
    spool.delete(first.id)
    spool.add(spooledEnd(second))
    await spool.settled()
    expect((await read())?.ends).toEqual([spooledEnd(second)])
  })

  test("is not read by itself, and nothing else in its folder is", async () => {
    const { data_dir, spool } = await opened()
    spool.add(spooledEnd(settled(nextId(), 1n)))
    await spool.settled()
    await writeFile(join(data_dir, "spool", "notes.jsonl"), "{}\n")
    expect(await spool.others()).toEqual([])
  })

  test("D27 with a torn line in its middle gives the other lines, and says that there is one", async () => {
    const [first, last] = [settled(nextId(), 1n), settled(nextId(), 3n)]
    const lines = [
      lineOf(spooledEnd(first)),
      `${lineOf(spooledEnd(settled(nextId(), 2n))).slice(0, 40)}\n`,
      lineOf(spooledEnd(last)),
    ]
    const { read } = await left(lines.join(""))
    expect(await read()).toMatchObject({ ends: [spooledEnd(first), spooledEnd(last)], unreadable: 1 })
  })

  test("is written again when somebody removed it in the middle of things", async () => {
    const { path, spool } = await opened()
    spool.add(spooledEnd(settled(nextId(), 1n)))
    await spool.settled()
    await rm(path)
    const second = settled(nextId(), 2n)
    spool.add(spooledEnd(second))
    await spool.settled()
    expect(await readFile(path, "utf8")).toContain(second.id)
  })

  test("that has grown since it was read is not removed", async () => {
    const { data_dir, path, other, read } = await left(lineOf(spooledEnd(settled(nextId(), 1n))))
    const file = await read()
    if (file === undefined) throw new Error("no file")
    await appendFile(path, lineOf(spooledEnd(settled(nextId(), 2n))))
    await other.remove(file)
    expect(await filesIn(data_dir)).toHaveLength(1)
  })

  test("loses nothing to others who remove what they have read while it is written", async () => {
    const { spool, other } = await opened()
    const read = new Set<string>()
    const readAll = async () => {
      const files = await other.others()
      for (const { ends } of files) for (const { end } of ends) read.add(end.id)
      return files
    }
    const kept: string[] = []
    let keeping = true
    const removing = (async () => {
      while (keeping) for (const file of await readAll()) await other.remove(file)
    })()
    while (kept.length < 200) {
      const end = settled(nextId(), 1n)
      kept.push(end.id)
      spool.add(spooledEnd(end))
      await spool.settled()
    }
    keeping = false
    await removing
    await readAll()
    expect(kept.filter((id) => !read.has(id))).toEqual([])
  })

  test("that cannot be written is an error once, and the ends stay in memory", async () => {
    const { errors, log } = listening()
    const { data_dir, path, spool, read } = await opened(log)
    await writeFile(join(data_dir, "spool"), "a file where the folder should be")
    for (let at = 0; at < 3; at++) {
      spool.add(spooledEnd(settled(nextId(), 1n)))
      await spool.settled()
    }
    expect(errors).toEqual([
      "the spool cannot be written: settlements that wait for the database are in memory only",
    ])
    expect(spool.depth).toBe(3)

    // What was written of a line before the disk was full does not spoil the next one.
    await rm(join(data_dir, "spool"))
    await mkdir(join(data_dir, "spool"))
    await writeFile(path, '{"account_id":"a","end')
    spool.add(spooledEnd(settled(nextId(), 1n)))
    await spool.settled()
    expect((await read())?.ends).toHaveLength(4)
  })

  test("that could not be written, for an end that reached the ledger all the same, is written the next time", async () => {
    const { data_dir, spool, read } = await opened()
    await writeFile(join(data_dir, "spool"), "in the way")
    const [first, second] = [settled(nextId(), 1n), settled(nextId(), 2n)]
    spool.add(spooledEnd(first))
    await spool.settled()
    spool.add(spooledEnd(second))
    await spool.settled()
    spool.delete(first.id)
    spool.delete(second.id)
    await rm(join(data_dir, "spool"))
    const third = settled(nextId(), 3n)
    spool.add(spooledEnd(third))
    await spool.settled()
    expect((await read())?.ends).toEqual([spooledEnd(third)])
  })
})
