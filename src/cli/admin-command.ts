import type { TSchema } from "@sinclair/typebox"
import { sourcesWith } from "../setup.ts"
import { listOf } from "../wire/admin.ts"
import { MAX_PAGE } from "../wire/admin-query.ts"
import { type AdminClient, DEFAULT_URL, findTarget, openAdminClient } from "./admin-client.ts"
import { UsageError } from "./cli-error.ts"
import { type Arguments, type Example, type Given, type Leaf, leaf } from "./command.ts"
import type { Screen } from "./screen.ts"

/** What an admin command works with. */
export interface AdminContext {
  readonly client: AdminClient
  readonly screen: Screen
  /** Prints an answer: as text, or as JSON with `--json`. */
  show(answer: unknown, text: () => string): void
  /** Prints a remark to standard error, unless `--json` is given. */
  remark(text: string): void
}

/** The flags of every admin command. */
const ADMIN_ARGS = {
  json: { type: "boolean", description: "print the API response as JSON" },
  url: {
    type: "string",
    valueHint: "URL",
    description: `address of the gateway (default: TOLLGATE_URL, then a running demo, then ${DEFAULT_URL})`,
  },
  database: {
    type: "boolean",
    description:
      "use the database directly: DATABASE_URL, the shards of the configuration, or the embedded one of the data directory",
  },
  "data-dir": {
    type: "string",
    valueHint: "DIR",
    description: "the data directory (default: TOLLGATE_DATA_DIR, then .tollgate)",
  },
} as const satisfies Arguments

interface AdminCommandDefinition<Args extends Arguments> {
  readonly summary: string
  readonly details?: string
  readonly args: Args
  readonly examples: readonly [Example, ...Example[]]
  run(given: Given<keyof Args & string>, context: AdminContext): Promise<void>
}

/** A command that opens an admin client and closes it at its end. */
export function adminCommand<const Args extends Arguments>(definition: AdminCommandDefinition<Args>): Leaf {
  return leaf({
    ...definition,
    args: { ...definition.args, ...ADMIN_ARGS },
    async run(given, screen) {
      const target = findTarget(
        { url: given.text("url"), database: given.has("database"), data_dir: given.text("data-dir") },
        sourcesWith(screen.env),
      )
      const is_json = given.has("json")
      const client = await openAdminClient(target)
      try {
        await definition.run(given, {
          client,
          screen,
          show: (answer, text) => screen.print(is_json ? JSON.stringify(answer, null, 2) : text()),
          remark: (text) => (is_json ? undefined : screen.remark(text)),
        })
      } finally {
        await client.close()
      }
    },
  })
}

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
} as const satisfies Arguments

const DEFAULT_LIMIT = 20

export interface Listed<Entry> {
  readonly data: readonly Entry[]
  /** Where the next page starts; null at the end. */
  readonly next: string | null
}

/** How many entries to read, and from where. */
interface Extent {
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
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new UsageError("--limit: expected an integer from 1 to 9999999")
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
