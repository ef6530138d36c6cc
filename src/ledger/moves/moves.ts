import { type SQL, sql } from "drizzle-orm"
import { NIL_ID, nextId } from "../../id.ts"
import { type Difference, differences } from "../archive/audit-checks.ts"
import { withDeadline } from "../database/deadline.ts"
import { type Db, firstRow } from "../database/statement.ts"
import type { Move } from "./move-statements.ts"
import * as statements from "./move-statements.ts"

export type MoveState =
  | MoveResult
  /** The move continues in this process. */
  | ({ readonly outcome: "moving" } & MoveProgress)
  /** It was being moved, and is live again where it was. */
  | { readonly outcome: "cancelled" }
  /** The account is in that shard, and was not moved there. */
  | { readonly outcome: "same_shard" }
  | { readonly outcome: "one_shard" }
  /** There is no shard of this name. `known`: the names of the shards. */
  | { readonly outcome: "no_shard"; readonly known: readonly string[] }

interface Running {
  readonly to: string
  readonly result: Promise<MoveState>
  progress: MoveProgress
}

interface AccountLocation extends MoveRow {
  readonly shard: MoveShard
}

const WAIT_MS = 2_000

const AT_FIRST: MoveProgress = { step: "draining", held_nano: 0n }

/** The moves of accounts that run in this process (D76). */
export function movesBetween(shards: readonly MoveShard[]) {
  const moving = new Map<string, Running>()

  function start(account_id: string, to: MoveShard): Running {
    const running: Running = {
      to: to.name,
      result: run(account_id, to, (progress) => {
        running.progress = progress
      }).finally(() => moving.delete(account_id)),
      progress: AT_FIRST,
    }
    // Nobody may be waiting when it fails. The next request gets the error.
    running.result.catch(() => {})
    moving.set(account_id, running)
    return running
  }

  async function run(
    account_id: string,
    to: MoveShard,
    onProgress: (progress: MoveProgress) => void,
  ): Promise<MoveState> {
    const found = await find(account_id)
    for (const { shard, moved_to } of found) {
      const next = shards.find(({ name }) => name === moved_to)
      if (next !== undefined) await carry(shard, next, account_id)
    }
    const here = found.find(({ moved_to }) => moved_to === null)
    const from = here ?? found.find((row) => isLeaving(row, found))
    if (from === undefined) return { outcome: "no_account" }
    if (from.shard.name !== to.name) return moveAccount(from.shard, to, account_id, { onProgress })
    if (from.moving_to !== null)
      return (await cancelMove(to, account_id)) ? { outcome: "cancelled" } : { outcome: "same_shard" }
    const before = found.find(
      ({ moved_to, moving_id }) => moved_to === to.name && moving_id === from.moving_id,
    )
    return before === undefined
      ? { outcome: "same_shard" }
      : moveAccount(before.shard, to, account_id, { onProgress })
  }

  async function find(account_id: string): Promise<readonly AccountLocation[]> {
    const rows = await Promise.all(
      shards.map(async (shard) => ({ shard, row: await rowOf(shard, account_id) })),
    )
    return rows.flatMap(({ shard, row }) => (row === null ? [] : [{ ...row, shard }]))
  }

  return {
    isKnown: async (account_id: string) => (await find(account_id)).length > 0,
    /** Begins or continues a move, and waits a short time for it. Afterwards another call returns its progress. */
    async move(account_id: string, to: MoveShard): Promise<MoveState> {
      const running = moving.get(account_id) ?? start(account_id, to)
      if (running.to !== to.name) return { outcome: "elsewhere", shard: running.to }
      return withDeadline(running.result, WAIT_MS, () => ({ outcome: "moving", ...running.progress }))
    },
  }
}

/** True if the account has left this shard and is not live on the next one yet. */
function isLeaving(
  { shard, moved_to, moving_id }: AccountLocation,
  found: readonly AccountLocation[],
): boolean {
  const next = found.find((row) => row.shard.name === moved_to)
  return next?.moving_id === moving_id && next.moved_to === shard.name
}

/** A shard between which accounts move (D76). */
export interface MoveShard {
  readonly name: string
  readonly database: Db
}

/** `draining`: waits for open calls. `switching`: cannot be cancelled any longer. `auditing`: the new shard serves calls. */
type MoveStep = "draining" | "copying" | "comparing" | "switching" | "auditing"

interface MoveProgress {
  readonly step: MoveStep
  /** Total of the account's open holds. */
  readonly held_nano: bigint
}

type MoveResult =
  /** Also if it was moved before. `differences`: the differences that both audits of the account found. */
  | { readonly outcome: "moved"; readonly differences: readonly Difference[] }
  | { readonly outcome: "no_account" }
  | { readonly outcome: "elsewhere"; readonly shard: string }
  /** Another account of the new shard has its id. */
  | { readonly outcome: "taken" }

interface MoveOptions {
  onProgress?(progress: MoveProgress): void
  /** Time for which the keys are in both shards before only the new one has them. */
  readonly rest_ms?: number
}

/** After this time, no gateway's lookup can miss the key on both the old and the new shard. */
const REST_MS = 2_500
/** Interval of the check for open calls of the account. */
const LOOK_MS = 200
/** Attempts to copy and compare, because a limit may start a new period meanwhile. */
const COMPARISONS = 3

/** Moves an account or resumes a move (D76), by idempotent steps. If it rejects with the driver's error, call it again. */
export async function moveAccount(
  from: MoveShard,
  to: MoveShard,
  account_id: string,
  options: MoveOptions = {},
): Promise<MoveResult> {
  const there = await rowOf(to, account_id)
  const is_free = there === null || there.moved_to !== null
  const planned: Move = { account_id, move_id: nextId(), from: from.name, to: to.name }
  if (is_free) await from.database.execute(statements.mark(planned))
  const here = await rowOf(from, account_id)
  if (here === null) return { outcome: "no_account" }
  const shard = here.moved_to ?? here.moving_to
  if (shard === null) return { outcome: "taken" }
  if (shard !== to.name) return { outcome: "elsewhere", shard }
  const { moving_id } = here
  if (moving_id === null) throw new Error("an account moves without an id of its move")
  const move: Move = { ...planned, move_id: moving_id }
  const { untilSwitched, untilLive } = halvesOf(from, to, move, options)
  if (here.moved_to === null) {
    if (there?.moved_to === from.name) await carry(to, from, account_id)
    await untilSwitched()
  }
  return untilLive()
}

/** Ends a move that has not switched yet. True if there was one; the account is then live on its old shard. */
export async function cancelMove({ database }: MoveShard, account_id: string): Promise<boolean> {
  return (await database.execute(statements.unmark(account_id))).length > 0
}

/** Transfers what late settlements left on the old shard, once: the ids of credits follow from each other. */
export async function carry(from: MoveShard, to: MoveShard, account_id: string): Promise<void> {
  const here = await rowOf(from, account_id)
  if (here === null || here.moving_id === null || here.moved_to !== to.name) return
  const move = { account_id, move_id: here.moving_id, from: from.name, to: to.name }
  for (let credit_id = move.move_id; ; credit_id = idAfter(credit_id, "next")) {
    const left = await amountOf(from, statements.leftWith(credit_id))
    const amount_nano = left ?? (await amountOf(from, statements.leaveRest(move, credit_id)))
    if (amount_nano === null) return
    const grants = await grantsOf(from, credit_id)
    await to.database.execute(statements.arrive(move, arrivalOf(credit_id), -amount_nano, grants))
  }
}

/** The two halves of a move. */
function halvesOf(
  from: MoveShard,
  to: MoveShard,
  move: Move,
  { onProgress, rest_ms = REST_MS }: MoveOptions,
) {
  const { account_id } = move
  const report = (step: MoveStep, held_nano = 0n) => onProgress?.({ step, held_nano })

  async function drain(): Promise<void> {
    for (;;) {
      const here = await rowOf(from, account_id)
      const [calls] = await from.database.execute<{ open: boolean }>(statements.openCalls(account_id))
      const held_nano = BigInt(here?.held_nano ?? "0")
      if (held_nano === 0n && calls?.open === false) return
      report("draining", held_nano)
      await Bun.sleep(LOOK_MS)
    }
  }

  async function copy(): Promise<void> {
    for (let comparison = 0; comparison < COMPARISONS; comparison++) {
      report("copying")
      const source = await pictureOf(from, account_id)
      if (!source.is_here) return
      await to.database.execute(statements.copy(move, source.picture, source.used))
      await copyPages(NIL_ID, (after) => statements.usersAfter(account_id, after), statements.copyUsers)
      await copyPages(
        "",
        (after) => statements.claimsAfter(account_id, after),
        statements.copyClaims,
        ({ call_ids }) =>
          copyPages(NIL_ID, (after) => statements.answersAfter(call_ids, after), statements.copyAnswers),
      )
      report("comparing")
      const copied = await pictureOf(to, account_id, source.at)
      if (copied.picture === source.picture) return
    }
    throw new Error("the copy of the account is not what was copied: nothing was switched")
  }

  /** Copies users, claims or answers, in pages that begin after a row. */
  async function copyPages(
    first: string,
    pageAfter: (after: string) => SQL,
    copyOf: (move: Move, rows: string) => SQL,
    onPage: (page: Copied) => Promise<void> = async () => {},
  ): Promise<void> {
    for (let after = first; ; ) {
      const [page] = await from.database.execute<Copied | { rows: null }>(pageAfter(after))
      if (page === undefined || page.rows === null) return
      await to.database.execute(copyOf(move, page.rows))
      await onPage(page)
      after = page.last
    }
  }

  return {
    /** Resolves once the account is not live on the old shard, perhaps by another run. */
    async untilSwitched(): Promise<void> {
      const [prepared] = await to.database.execute(statements.prepare(move))
      if (prepared === undefined) throw new Error("the account was moved by another run meanwhile")
      const before = await pictureOf(from, account_id)
      if (!before.is_here) return
      await to.database.execute(statements.copyHashes(move, before.picture))
      await drain()
      await Bun.sleep(rest_ms)
      await copy()
      report("switching")
      await from.database.execute(statements.changeGrants(move))
      await from.database.execute(statements.switchOver(move))
      const here = await rowOf(from, account_id)
      if (here?.moved_to !== move.to)
        throw new Error("the account could not be switched: its move was cancelled")
    },

    async untilLive(): Promise<MoveResult> {
      await carry(from, to, account_id)
      await to.database.execute(statements.open(move, arrivalOf(move.move_id)))
      report("auditing")
      const found: Difference[] = []
      for (const { database } of [from, to]) found.push(...(await differences(database, account_id)))
      return { outcome: "moved", differences: found }
    },
  }
}

interface Picture extends Record<string, unknown> {
  readonly picture: string
  readonly at: string
  readonly used: string
  readonly is_here: boolean
}

/** Times of one zone, so that both texts can be compared. */
async function pictureOf({ database }: MoveShard, account_id: string, at?: string) {
  return database.transaction(
    async (transaction) => {
      await transaction.execute(sql`SELECT set_config('TimeZone', 'UTC', true)`)
      const [found] = await transaction.execute<Picture>(statements.picture(account_id, at))
      if (found === undefined) throw new Error("the database did not tell the account")
      return found
    },
    { accessMode: "read only" },
  )
}

/** Some rows, as a JSON text; null for none. */
interface Copied extends Record<string, unknown> {
  readonly rows: string
  readonly last: string
  readonly call_ids: string
}

/** A shard's record of an account's location. */
interface MoveRow extends Record<string, unknown> {
  readonly moved_to: string | null
  readonly moving_to: string | null
  readonly moving_id: string | null
  readonly held_nano: string
}

/** Null if the account was never there. */
export function rowOf({ database }: MoveShard, account_id: string): Promise<MoveRow | null> {
  return firstRow(database.execute<MoveRow>(statements.row(account_id)))
}

async function amountOf({ database }: MoveShard, question: SQL): Promise<bigint | null> {
  const [row] = await database.execute<{ amount_nano: string }>(question)
  return row === undefined ? null : BigInt(row.amount_nano)
}

/** The grants that have left with a credit, each with the id of its credit on the new shard, where they stay in this order. */
async function grantsOf({ database }: MoveShard, credit_id: string): Promise<string | null> {
  const [row] = await database.execute<{ grants: string | null }>(statements.grantsWith(credit_id))
  if (row === undefined || row.grants === null) return null
  const grants: unknown = JSON.parse(row.grants)
  if (!Array.isArray(grants)) throw new Error("the grants of a move are not a list")
  return JSON.stringify(grants.map((grant: object) => ({ ...grant, id: nextId() })))
}

/** The id of the new shard's credit for the old shard's. */
function arrivalOf(credit_id: string): string {
  return idAfter(credit_id, "arrival")
}

/** A UUID (RFC 9562, version 8) derived from both. */
function idAfter(id: string, word: string): string {
  const hash = Bun.SHA256.hash(`${id} ${word}`, "hex")
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${hash.slice(20, 32)}`
}
