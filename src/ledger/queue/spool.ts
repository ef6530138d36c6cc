import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type Static, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { isId, nextId } from "../../id.ts"
import { buckets } from "../../kinds.ts"
import { attemptFailures, bases, endings, failures, notes } from "../../wire/call.ts"
import { errorCode } from "../database/database-errors.ts"
import { jsonOf } from "../database/statement.ts"
import type { AttemptEntry, End, Hold } from "../entries.ts"
import type { LedgerLog } from "../events.ts"

/** An end and the account of its call, which tells the queue. */
export interface SpooledEnd {
  readonly account_id: string
  readonly end: End
  /** The call's hold, in case the database loses it (D73); null if not known. */
  readonly hold: Hold | null
}

/** An end or an attempt (D93) that the database has not taken yet. */
type SpooledEntry = SpooledEnd | { readonly attempt: AttemptEntry }

/** The name of an entry in the spool: the call's id, for an attempt with its ordinal. */
export function spoolKey(entry: SpooledEntry): string {
  return "end" in entry ? entry.end.id : `${entry.attempt.id} ${entry.attempt.ordinal}`
}

export interface SpoolFile {
  readonly path: string
  /** The gateway row under which its process began. */
  readonly gateway_id: string
  /** A hash of its bytes, because a file name may be reused, even with the same size. */
  readonly digest: string
  /** Lines that this version cannot read. The file is kept for them. */
  readonly unreadable: number
  readonly ends: readonly SpooledEnd[]
  readonly attempts: readonly AttemptEntry[]
}

const SUFFIX = ".jsonl"

const Count = Type.Integer({ minimum: 0 })
/** Refuses unknown buckets, because this version would not charge them. */
const Buckets = Type.Partial(Type.Record(Type.Union(buckets.map((word) => Type.Literal(word))), Count), {
  additionalProperties: false,
})
const asking = { key: Type.Optional(Type.String()), request_id: Type.Optional(Type.String()) }
const lost = {
  ...asking,
  upstream: Type.String(),
  status: Type.Optional(Count),
  failure: Type.Optional(Type.Union(attemptFailures.map((word) => Type.Literal(word)))),
  ms: Count,
}
const Details = Type.Object({
  ...asking,
  // Before version 0.3, attempts were a part of the end.
  attempts: Type.Optional(Type.Array(Type.Object(lost))),
  unread: Type.Optional(Type.Array(Type.String())),
  unexplained_tokens: Type.Optional(Type.Integer()),
  // Version 1.0.0 wrote costs of any size.
  provider_cost_nano: Type.Optional(Type.String({ pattern: "^\\d{1,64}$" })),
  estimate: Type.Optional(
    Type.Object({ output_bytes: Count, prompt_bytes: Count, bytes_per_token: Type.Number() }),
  ),
})
const common = {
  id: Type.String(),
  outcome: Type.Union([Type.Literal("settled"), Type.Literal("released")]),
  charge_nano: Type.String({ pattern: "^\\d{1,19}$" }),
  basis: Type.Union(bases.map((word) => Type.Literal(word))),
  ending: Type.Union([...endings.map((word) => Type.Literal(word)), Type.Null()]),
  failure: Type.Union([...failures.map((word) => Type.Literal(word)), Type.Null()]),
  notes: Type.Array(Type.Union(notes.map((word) => Type.Literal(word)))),
  usage: Type.Union([
    Type.Object({
      prompt_tokens: Count,
      cached_tokens: Count,
      completion_tokens: Count,
      buckets: Type.Optional(Buckets),
      tool_runs: Type.Optional(Type.Record(Type.String(), Count)),
    }),
    Type.Null(),
  ]),
  details: Type.Optional(Details),
  ttft_ms: Type.Union([Count, Type.Null()]),
  duration_ms: Count,
}
const NamedOrNull = Type.Union([Type.String(), Type.Null()])
const SpooledHold = Type.Object({
  id: Type.String(),
  account_id: Type.String(),
  key_id: Type.String(),
  amount_nano: Type.String({ pattern: "^\\d{1,19}$" }),
  price_multiplier_bp: Type.Optional(Type.Integer()),
  /** The name in version 0.2. */
  margin_bp: Type.Optional(Type.Integer()),
  terms_id: Type.Integer(),
  stream: Type.Boolean(),
  labels: Type.Optional(
    Type.Object({
      id: Type.Integer(),
      end_user_id: NamedOrNull,
      tags: Type.Record(Type.String(), Type.String()),
    }),
  ),
  labels_version: Type.Optional(Type.Integer()),
  session: Type.Optional(Type.Object({ session_id: NamedOrNull, agent_id: NamedOrNull })),
  idempotency: Type.Union([Type.Object({ key_hash: Type.String(), body_hash: Type.String() }), Type.Null()]),
})
const Line = Type.Object({
  account_id: Type.String(),
  // Version 0.2 did not write it.
  hold: Type.Optional(Type.Union([SpooledHold, Type.Null()])),
  end: Type.Object({
    ...common,
    terms_id: Type.Union([Type.Integer(), Type.Null()]),
    freed_key_hash: Type.Union([Type.String({ pattern: "^[0-9a-f]{64}$" }), Type.Null()]),
  }),
})
/** As version 0.1 wrote it, without the terms of the upstream that answered. The terms of the hold apply. */
const OlderLine = Type.Object({ account_id: Type.String(), closing: Type.Object(common) })
const AttemptLine = Type.Object({
  attempt: Type.Object({
    ...lost,
    id: Type.String(),
    ordinal: Count,
    account_id: Type.String(),
    ended_at: Type.String(),
  }),
})
const line = TypeCompiler.Compile(Line)
const attemptLine = TypeCompiler.Compile(AttemptLine)
const olderLine = TypeCompiler.Compile(OlderLine)

/** Ends and attempts that the database has not taken (D27): lines of JSON, synced to disk, for any process to write. */
export class Spool {
  readonly #folder: string
  readonly #gateway_id: string
  readonly #log: LedgerLog
  readonly #entries = new Map<string, SpooledEntry>()
  /** Keys of entries that are not on the disk yet. */
  readonly #unwritten = new Set<string>()
  /** Callers that wait for an end to be on the disk. */
  readonly #waiting = new Map<string, () => void>()
  #writing: Promise<void> | null = null
  #written = false
  #failing = false

  constructor(data_dir: string, gateway_id: string, log: LedgerLog) {
    this.#folder = join(data_dir, "spool")
    this.#gateway_id = gateway_id
    this.#log = log
  }

  /** Entries of this process that are spooled and not in the ledger yet. */
  get depth(): number {
    return this.#entries.size
  }

  /** Adds an entry until it is deleted. True if it was not there already. */
  add(spooled: SpooledEntry): boolean {
    const key = spoolKey(spooled)
    if (this.#entries.has(key)) return false
    this.#entries.set(key, spooled)
    this.#unwritten.add(key)
    this.#writing ??= this.#write()
    return true
  }

  has(id: string): boolean {
    return this.#entries.has(id)
  }

  /** Resolves when an added end is on the disk, the disk has refused it, or it is deleted. Call once for each end. */
  synced(id: string): Promise<void> {
    if (!this.#unwritten.has(id)) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve)
      this.#writing ??= this.#write()
    })
  }

  #notify(ids: Iterable<string>): void {
    for (const id of ids) {
      this.#waiting.get(id)?.()
      this.#waiting.delete(id)
    }
  }

  /** Forgets an entry that is in the ledger. */
  delete(key: string): void {
    if (!this.#entries.delete(key)) return
    this.#unwritten.delete(key)
    this.#notify([key])
    if (this.#entries.size === 0 && this.#written) this.#writing ??= this.#write()
  }

  /** Resolves when all is on the disk, or the disk refused it. An empty file is deleted. */
  async settled(): Promise<void> {
    if (this.#unwritten.size > 0) this.#writing ??= this.#write()
    while (this.#writing !== null) await this.#writing
  }

  async others(): Promise<SpoolFile[]> {
    const names = await readdir(this.#folder).catch(() => [])
    const files: SpoolFile[] = []
    for (const name of names.sort()) {
      const [gateway_id = ""] = name.split(".")
      if (!name.endsWith(SUFFIX) || !isId(gateway_id) || gateway_id === this.#gateway_id) continue
      const file = await read(join(this.#folder, name), gateway_id)
      if (file !== null) files.push(file)
    }
    return files
  }

  /**
   * Removes a file whose lines are all in the ledger, unless it has changed since it was read. This process renames the file
   * and then checks it; the file's process writes and then checks that the file exists. So a line that comes meanwhile is in
   * the renamed file, which stays, or is written again.
   */
  async remove({ path, gateway_id, digest }: SpoolFile): Promise<void> {
    const away = join(this.#folder, `${gateway_id}.${nextId()}${SUFFIX}`)
    try {
      await rename(path, away)
    } catch (error) {
      if (errorCode(error) === "ENOENT") return
      throw error
    }
    const now = await read(away, gateway_id)
    if (now?.digest === digest) await rm(away, { force: true })
  }

  get #path(): string {
    return join(this.#folder, this.#gateway_id + SUFFIX)
  }

  async #write(): Promise<void> {
    try {
      // Lines that come while the file is being removed are written before this ends.
      while (this.#unwritten.size > 0 || (this.#entries.size === 0 && this.#written)) {
        if (this.#unwritten.size > 0) await this.#append()
        else {
          this.#written = false
          await rm(this.#path, { force: true })
        }
      }
      this.#failing = false
    } catch (error) {
      if (!this.#failing) {
        this.#log.error(
          { err: error },
          "the spool cannot be written: settlements that wait for the database are in memory only",
        )
      }
      this.#failing = true
    }
    this.#writing = null
  }

  async #append(): Promise<void> {
    try {
      await makeFolder(this.#folder)
      const entries = [...this.#unwritten].flatMap((key) => this.#entries.get(key) ?? [])
      const keys = entries.map(spoolKey)
      // Starts with a line break, because the last write may have been cut in the middle of a line.
      const text = `${this.#failing ? "\n" : ""}${entries.map(lineOf).join("")}`
      while (!(await this.#appendText(text))) {}
      this.#written = true
      for (const key of keys) this.#unwritten.delete(key)
      this.#notify(keys)
    } catch (error) {
      this.#notify(this.#waiting.keys())
      throw error
    }
  }

  /** Writes to the disk. Returns false if another process has removed the file meanwhile. */
  async #appendText(text: string): Promise<boolean> {
    const file = await open(this.#path, "a", 0o600)
    try {
      const { ino, size } = await file.stat()
      await file.appendFile(text)
      const there = await stat(this.#path).catch(() => null)
      if (there?.ino !== ino) return false
      await file.sync()
      if (size === 0) await syncFolder(this.#folder)
      return true
    } finally {
      await file.close()
    }
  }
}

/** Returns null if the file was removed meanwhile. */
async function read(path: string, gateway_id: string): Promise<SpoolFile | null> {
  const bytes = await readFile(path).catch(() => null)
  if (bytes === null) return null
  const lines = bytes.toString().split("\n")
  // A last line without a line end was cut when its process died, before a caller was told that it is durable.
  const torn = lines.pop() ?? ""
  const read = [...lines.filter((text) => text !== "").map(parseLine), ...ifNotNull(parseLine(torn))]
  const entries = read.filter((spooled) => spooled !== null)
  const ends = entries.filter((entry) => "end" in entry)
  const attempts = entries.flatMap((entry) => ("attempt" in entry ? entry.attempt : []))
  const digest = new Bun.CryptoHasher("sha256").update(bytes).digest("hex")
  return { path, gateway_id, digest, unreadable: read.length - entries.length, ends, attempts }
}

function ifNotNull<T>(value: T | null): T[] {
  return value === null ? [] : [value]
}

/** One line of the spool, including the line end. Amounts are decimal strings. */
export function lineOf(spooled: SpooledEntry): string {
  return `${jsonOf([spooled]).slice(1, -1)}\n`
}

/** Returns null if this version cannot read the text. */
export function parseLine(text: string): SpooledEntry | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  if (line.Check(value) && isId(value.end.id)) {
    const { account_id, end, hold }: Static<typeof Line> = value
    return {
      account_id,
      end: { ...end, charge_nano: BigInt(end.charge_nano) },
      hold: hold ? spooledHold(hold) : null,
    }
  }
  if (attemptLine.Check(value) && isId(value.attempt.id)) return value
  if (olderLine.Check(value) && isId(value.closing.id)) {
    const { account_id, closing }: Static<typeof OlderLine> = value
    const { id, outcome, basis, ending, failure, notes, usage, ttft_ms, duration_ms } = closing
    const common = { id, outcome, basis, ending, failure, notes, usage, ttft_ms, duration_ms }
    const end = { ...common, charge_nano: BigInt(closing.charge_nano), terms_id: null, freed_key_hash: null }
    return { account_id, end, hold: null }
  }
  return null
}

function spooledHold({
  amount_nano,
  margin_bp,
  price_multiplier_bp = margin_bp,
  ...hold
}: Static<typeof SpooledHold>): Hold {
  return {
    ...hold,
    amount_nano: BigInt(amount_nano),
    ...(price_multiplier_bp !== undefined && { price_multiplier_bp }),
  }
}

async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true })
  if (first === undefined) return
  for (let made = folder; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made))
}

/** A new file or folder is durable only once its parent folder is synced. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r")
  await handle.sync().finally(() => handle.close())
}
