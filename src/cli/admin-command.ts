import type { Static, TObject, TProperties, TSchema } from "@sinclair/typebox"
import { sourcesWith } from "../start/setup.ts"
import { listOf } from "../wire/admin.ts"
import { MAX_PAGE } from "../wire/admin-query.ts"
import { csvOf, ndjsonOf, rowsOf } from "../wire/csv.ts"
import { type AdminClient, openAdminClient, type Query } from "./admin-client.ts"
import { UsageError } from "./cli-error.ts"
import { type CommandWords, type Given, type Leaf, type LeafDefinition, typed } from "./command.ts"
import { type CardLine, type CardLines, type Column, card, linesOf, type Screen, table } from "./screen.ts"
import { DEFAULT_URL, findTarget } from "./target.ts"

export interface AdminContext {
  readonly client: AdminClient
  readonly screen: Screen
  /** True if the entries of a list are printed alone, as CSV or NDJSON. */
  readonly shows_rows: boolean
  /** Prints an answer: as text, or as JSON with `--json`. */
  show(answer: unknown, text: () => string, rows?: readonly object[]): void
  /** Prints an answer as a card of the lines from `lines`, or as JSON with `--json`. */
  showCard<P extends TProperties>(
    schema: TObject<P>,
    answer: Static<TObject<P>>,
    lines: (line: CardLines<P>) => readonly CardLine[],
  ): void
  /** Prints an answer with rows as a table, or as JSON with `--json`. */
  showTable<Row>(answer: unknown, shown: ShownTable<Row>): void
  /** Prints a remark to standard error, unless `--json` is given. */
  remark(text: string): void
}

export interface ShownTable<Row> {
  readonly rows: readonly Row[]
  readonly columns: readonly Column<Row>[]
  readonly empty: string
}

const ADMIN_WORDS = {
  "--json": "print the API response as JSON",
  "--url <URL>": `address of the gateway (default: TOLLGATE_URL, then a running demo, then ${DEFAULT_URL})`,
  "--database":
    "use the database directly: DATABASE_URL, the shards of the configuration, or the embedded one of the data directory",
  "--data-dir <DIR>": "the data directory (default: TOLLGATE_DATA_DIR, then .tollgate)",
} as const satisfies CommandWords

/** The flags of commands that show a list. */
const FORMAT_WORDS = {
  "--csv": "print the entries as CSV",
  "--ndjson": "print the entries as lines of JSON",
} as const satisfies CommandWords

type AdminDefinition<W> = Omit<LeafDefinition<W>, "run"> & {
  /** True if it shows the entries of a list, which can also be printed as CSV and NDJSON. */
  readonly is_list?: boolean
  run(given: Given<W>, context: AdminContext): Promise<void>
}

export function adminCommand<const W extends CommandWords>(definition: AdminDefinition<W>): Leaf {
  return {
    ...definition,
    words: { ...definition.words, ...(definition.is_list && FORMAT_WORDS), ...ADMIN_WORDS },
    async run(given, screen) {
      const { csv, ndjson } = typed(FORMAT_WORDS, given)
      if ([given.json, csv, ndjson].filter((flag) => flag === true).length > 1)
        throw new UsageError("--json, --csv and --ndjson cannot be combined")
      const { json, url = null, database, "data-dir": data_dir = null } = typed(ADMIN_WORDS, given)
      const target = findTarget({ url, database: database === true, data_dir }, sourcesWith(screen.env))
      const client = await openAdminClient(target, screen.env.TOLLGATE_REASON || undefined)
      const show = (answer: unknown, text: () => string, entries = rowsOf(answer) ?? []) => {
        const lines = csv ? csvOf(entries) : ndjson ? ndjsonOf(entries) : null
        if (lines === null) screen.print(json ? JSON.stringify(answer, null, 2) : text())
        else if (lines !== "") screen.print(lines.trimEnd())
      }
      try {
        await definition.run(typed(definition.words, given), {
          client,
          screen,
          shows_rows: csv === true || ndjson === true,
          show,
          showCard: (schema, answer, lines) =>
            show(answer, () => card(lines(linesOf(schema, answer)), screen)),
          showTable: (answer, { rows, columns, empty }) =>
            show(answer, () => (rows.length === 0 ? empty : table(columns, rows, screen))),
          remark: (text) => (json ? undefined : screen.remark(text)),
        })
      } finally {
        await client.close()
      }
    },
  }
}

/** The flags of a list that the API gives page by page. */
const LIST_WORDS = {
  "--limit <N>": "the maximum number of entries to show (default: 20, or all with --csv and --ndjson)",
  "--all": "show all entries",
  "--after <ID>": "continue after this entry (the `next` of an earlier list)",
} as const satisfies CommandWords

const DEFAULT_LIMIT = 20

type ListDefinition<W, S extends TSchema> = Omit<LeafDefinition<W>, "run"> & {
  readonly entry: S
  readonly columns: readonly Column<Static<S>>[]
  readonly empty: string
  path(given: Given<W>, context: AdminContext): Promise<readonly [path: string, query?: Query]>
}

export function listCommand<const W extends CommandWords, S extends TSchema>(
  definition: ListDefinition<W, S>,
): Leaf {
  const { words, columns, empty, entry } = definition
  const all: CommandWords = { ...words, ...LIST_WORDS }
  return adminCommand({
    ...definition,
    is_list: true,
    words: all,
    async run(given, context) {
      const extent = extentOf(typed(LIST_WORDS, given), context.shows_rows)
      const [path, query = {}] = await definition.path(typed(words, given), context)
      const list = await listAll(context, path, query, entry, extent)
      context.showTable(list, { rows: list.data, columns, empty })
      if (list.next !== null) context.remark("There are more entries: use --all or --limit N to see them.")
    },
  })
}

const EVERY = { limit: Number.POSITIVE_INFINITY }

function extentOf({ limit, all, after }: Given<typeof LIST_WORDS>, shows_rows: boolean) {
  if (all && limit !== undefined) throw new UsageError("--all and --limit cannot be combined")
  if (all || (shows_rows && limit === undefined)) return { ...EVERY, after }
  if (limit === undefined) return { limit: DEFAULT_LIMIT, after }
  if (!/^[1-9]\d{0,6}$/.test(limit)) throw new UsageError("--limit: expected an integer from 1 to 9999999")
  return { limit: Number(limit), after }
}

/** Reads pages until `limit` entries are there or the list ends. */
export async function listAll<S extends TSchema>(
  { client }: AdminContext,
  path: string,
  query: Query,
  entry: S,
  { limit, after }: { readonly limit: number; readonly after?: string | undefined } = EVERY,
) {
  const data: Static<S>[] = []
  let next = after ?? null
  do {
    const page = { limit: String(Math.min(limit - data.length, MAX_PAGE)), after: next ?? undefined }
    const list = await client.get(path, listOf(entry), { ...query, ...page })
    data.push(...list.data)
    next = list.next
  } while (next !== null && data.length < limit)
  return { data, next }
}

/** The parts of an answer that the API gives one by one, each with where the next begins. */
export async function* partsOf<Part extends { readonly next: string | null }>(
  ask: (from: string | undefined) => Promise<Part>,
): AsyncGenerator<Part> {
  for (let from: string | null | undefined; from !== null; ) {
    const part: Part = await ask(from)
    yield part
    from = part.next
  }
}
