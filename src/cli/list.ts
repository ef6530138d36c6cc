import type { TSchema } from "@sinclair/typebox"
import type { ArgsDef } from "citty"
import { listOf } from "../wire/admin.ts"
import { MAX_PAGE } from "../wire/admin-query.ts"
import type { AdminContext } from "./admin-command.ts"
import { UsageError } from "./cli-error.ts"
import type { Given } from "./given.ts"

/** Reads paginated lists of the API. */

export const LIST_ARGS = {
  limit: {
    type: "string",
    valueHint: "N",
    description: "the maximum number of entries to show (default: 20)",
  },
  all: { type: "boolean", description: "show all entries" },
  after: {
    type: "string",
    valueHint: "ID",
    description: "continue after this entry (the `next` of an earlier list)",
  },
} as const satisfies ArgsDef

const DEFAULT_LIMIT = 20

export interface Listed<Entry> {
  readonly data: readonly Entry[]
  /** Where the next page starts; null at the end. */
  readonly next: string | null
}

/** How many entries to read, and from where. */
export interface Extent {
  /** Infinity for all. */
  readonly limit: number
  readonly after: string | null
}

export function extentOf(given: Given<keyof typeof LIST_ARGS>): Extent {
  const text = given.text("limit")
  const after = given.text("after")
  if (given.has("all")) {
    if (text !== null) throw new UsageError("--all and --limit cannot be combined")
    return { limit: Number.POSITIVE_INFINITY, after }
  }
  if (text === null) return { limit: DEFAULT_LIMIT, after }
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new UsageError("--limit: expected a whole number from 1 to 9999999")
  return { limit: Number(text), after }
}

/** Reads pages until `limit` entries are there or the list ends. */
export async function listAll<S extends TSchema>(
  { client }: Pick<AdminContext, "client">,
  path: string,
  query: Readonly<Record<string, string>>,
  entry: S,
  { limit, after }: Extent,
) {
  const schema = listOf(entry)
  const list = await client.get(pageAt(path, query, limit, after), schema)
  const data = [...list.data]
  let next = list.next
  while (next !== null && data.length < limit) {
    const page = await client.get(pageAt(path, query, limit - data.length, next), schema)
    data.push(...page.data)
    next = page.next
  }
  return { data, next }
}

function pageAt(path: string, query: Readonly<Record<string, string>>, limit: number, after: string | null) {
  const parameters = new URLSearchParams({ ...query, limit: String(Math.min(limit, MAX_PAGE)) })
  if (after !== null) parameters.set("after", after)
  return `${path}?${parameters}`
}

/** Says below an incomplete list that there is more. */
export function remarkNext(context: AdminContext, { next }: Listed<unknown>): void {
  if (next !== null) context.remark("There are more entries: use --all or --limit N to see them.")
}
