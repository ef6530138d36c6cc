import type { TSchema } from "@sinclair/typebox"
import { type SQL, sql } from "drizzle-orm"
import { drizzle } from "drizzle-orm/postgres-js"
import { Elysia } from "elysia"
import { Memory } from "../../src/admission/memory.ts"
import { errorResponse, GatewayError } from "../../src/errors.ts"
import { floorId, nextId } from "../../src/id.ts"
import { connect } from "../../src/ledger/database/address.ts"
import type { Db } from "../../src/ledger/database/statement.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import { operatorLedger } from "../../src/ledger/operators.ts"
import { type calls, checkpoints, corrections, ends, holds } from "../../src/ledger/schema/tables.ts"
import type { OperatedDatabase } from "../../src/ledger/shard-questions.ts"
import { adminRoutes, type Operators } from "../../src/routes/admin/admin.ts"
import { endRefused } from "../../src/routes/admin/change-log.ts"
import { BODY } from "../../src/routes/reference/operation.ts"
import { faultOf, ROUTING } from "../../src/routes/routing.ts"
import { bases, endings, failures } from "../../src/wire/call.ts"
import type { OneOrMore } from "../../src/wire/list.ts"
import { freshDatabase } from "../support/database.ts"
import { isDocumented } from "../support/documented.ts"
import { ofFile } from "../support/test-gateway.ts"

export const TOKEN = "operator-token-of-the-tests"

export const LIMITS: Operators["limits"] = {
  body_bytes: 64 * 1024,
  body_timeout_ms: 5_000,
  response_bytes: 1,
  response_read_bytes: 1,
  event_bytes: 1,
  memory_bytes: null,
  in_flight: 1,
  per_key: { in_flight: null, requests_per_minute: null, abandoned_per_minute: null },
}

/** What the tests read of an answer before they assert the rest. */
interface Body {
  readonly id: string
  readonly next: string | null
  readonly data: readonly Body[]
  readonly account: Body
  readonly refunded: string | null
  readonly balance: string
  readonly held: string
  readonly available: string
  readonly name: string
  readonly key: string
  readonly token: string
  readonly secret: string
  readonly prefix: string
  readonly created_at: string
  readonly revoked_at: string | null
  readonly checked_at: string
  readonly violations: readonly { readonly expected: string }[]
  readonly request_id: string
  readonly error: {
    readonly code: string
    readonly message: string
    readonly param: string | null
    readonly id?: string
  }
}

export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: Body
}

/** The operators' routes on a database of their own, asked without a socket. */
export interface AdminHarness {
  readonly database: Db
  readonly app: { handle(request: Request): Promise<Response> }
  /** The text of every answer, but those of a key's creation. */
  readonly texts: readonly string[]
  ask(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>
  /** Follows `next` from `path` to the end: the ids in the order they came. */
  walk(path: string, limit: number): Promise<string[]>
  openAccount(name?: string): Promise<string>
  close(): Promise<void>
}

export async function openAdminHarness(options: Partial<Operators> = {}): Promise<AdminHarness> {
  const { address, drop } = await freshDatabase()
  const client = connect(address, { max: 20, onnotice: () => {} })
  const database = drizzle(client)
  const app = mount({ database, ...options })
  const texts: string[] = []

  async function ask(method: string, path: string, body?: unknown, headers?: Record<string, string>) {
    const reply = await send(app, method, path, body, headers)
    if (!isDocumented(method, path.split("?")[0] ?? "", reply.status))
      throw new Error(`${method} ${path}: the API reference has no ${reply.status}`)
    const made = method === "POST" && path.endsWith("/keys") && reply.status === 201
    if (!made) texts.push(reply.text)
    return reply
  }

  async function walk(path: string, limit: number): Promise<string[]> {
    const ids: string[] = []
    const separator = path.includes("?") ? "&" : "?"
    let after = ""
    for (;;) {
      const { status, body, text }: Reply = await ask("GET", `${path}${separator}limit=${limit}${after}`)
      if (status !== 200) throw new Error(text)
      ids.push(...body.data.map(({ id }) => id))
      if (body.next === null) return ids
      after = `&after=${body.next}`
    }
  }

  return {
    database,
    app,
    texts,
    ask,
    walk,
    openAccount: async (name = "Acme") => (await ask("POST", "/admin/accounts", { name })).body.id,
    close: async () => {
      await client.end()
      await drop()
    },
  }
}

/** The harness of a test file, closed after its last test. */
export const testAdmin = (options?: Partial<Operators>) => ofFile(openAdminHarness(options))

/** The routes below an error printer like the application's; without upstreams unless told. */
export function mount({
  database,
  deadline_ms = 10_000,
  shards = [{ name: "main", open: true, database }],
  ...operators
}: Partial<Operators> & {
  readonly database: Db
  readonly deadline_ms?: number
  readonly shards?: OneOrMore<OperatedDatabase>
}) {
  const deadlines = { deadline_ms, sums_deadline_ms: deadline_ms, audit_deadline_ms: deadline_ms }
  return new Elysia(ROUTING)
    .onError(async ({ error, code, request }) => {
      const fault = code === "NOT_FOUND" ? new GatewayError("not_found") : faultOf(error)
      await endRefused(request, fault.status)
      return errorResponse(fault, nextId())
    })
    .use(
      adminRoutes({
        admin_token: TOKEN,
        ledger: operatorLedger(shards, deadlines),
        limits: LIMITS,
        memory: new Memory(2 ** 28),
        models: null,
        upstreams: async () => [],
        ...operators,
      }),
    )
}

/** What routes answer to an operator, who has the token unless `headers` has another. */
export async function send(
  app: AdminHarness["app"],
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Reply> {
  const sent = body === undefined || typeof body === "string" ? body : JSON.stringify(body)
  const type = sent === undefined ? {} : { "content-type": "application/json" }
  const given = { authorization: `Bearer ${TOKEN}`, ...type, ...headers }
  const init = { method, headers: given, ...(sent !== undefined && { body: sent }) }
  const response = await app.handle(new Request(`http://localhost${path}`, init))
  const text = await response.text()
  const is_lines = /ndjson|csv/.test(response.headers.get("content-type") ?? "")
  const { status } = response
  return { status, headers: response.headers, text, body: text === "" || is_lines ? null : JSON.parse(text) }
}

/** The values of lines of JSON. */
export function linesIn<Line = Readonly<Record<string, unknown>>>(text: string): Line[] {
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line))
}

/** A database that is not there. */
export const nowhere = () =>
  connect(
    { socket_path: "/nonexistent/.s.PGSQL.5432", user: "nobody", database: "none" },
    { backoff: () => 0 },
  )

/** The error object of a refused request, without what differs from case to case. */
export function refusal({ status, body }: Reply) {
  return { status, code: body.error.code, param: body.error.param }
}

/** An id as if its call had arrived at `at`. */
export function idAt(at: Date): string {
  return `${floorId(at).slice(0, 14)}7${nextId().slice(15)}`
}

/** A call as it stands in the ledger, as far as a test says it, and what a checkpoint or a correction adds. */
export type Planted = Partial<typeof calls.$inferSelect> & {
  readonly account_id: string
  readonly checkpoint_nano?: bigint
  /** The call was expired and settled later: what the correction says instead of the end. */
  readonly corrected?: Partial<typeof corrections.$inferInsert> & { readonly charge_nano: bigint }
}

/**
 * Adds the entries of a call to the ledger without moving a balance: an open hold of 5,000 nano-USD unless told. Its id
 * has the time of the hold.
 */
export async function plantCall(database: Db, planted: Planted): Promise<string> {
  const id = planted.id ?? (planted.held_at === undefined ? nextId() : idAt(planted.held_at))
  await plantCalls(database, [{ ...planted, id }])
  return id
}

export async function plantCalls(
  database: Db,
  planted: readonly (Planted & { readonly id: string })[],
): Promise<void> {
  if (planted.length === 0) return
  const terms_ids = await registerTerms(
    database,
    planted.map(({ family = "chat", model = "gpt-5-mini", upstream = "openai", ...prices }) => ({
      family,
      model,
      upstream,
      price: {
        input_pico: prices.input_pico ?? 250_000n,
        cached_input_pico: prices.cached_input_pico ?? 25_000n,
        output_pico: prices.output_pico ?? 2_000_000n,
        per_call_nano: prices.per_call_nano ?? 0n,
      },
    })),
  )
  const rows = planted.map((call, at) => rowsOf(call, terms_ids[at] ?? 0))
  const all_ends = rows.flatMap(({ end }) => end)
  const corrected = rows.flatMap(({ correction }) => correction)
  const checked = rows.flatMap(({ checkpoint }) => checkpoint)
  await database.insert(holds).values(rows.map(({ hold }) => hold))
  if (all_ends.length > 0) await database.insert(ends).values(all_ends)
  if (corrected.length > 0) await database.insert(corrections).values(corrected)
  if (checked.length > 0) await database.insert(checkpoints).values(checked)
}

function rowsOf(call: Planted & { readonly id: string }, terms_id: number) {
  const { id, account_id, state = "open", checkpoint_nano, corrected } = call
  const { key_id = nextId(), gateway_id = nextId(), amount_nano = 5_000n, held_at, ended_at } = call
  const own = { id, account_id, key_id, terms_id }
  const tokens = {
    prompt_tokens: call.prompt_tokens ?? null,
    cached_tokens: call.cached_tokens ?? null,
    completion_tokens: call.completion_tokens ?? null,
  }
  const basis = basisOf(call.basis)
  const charge_nano = call.charge_nano ?? 0n
  const end: (typeof ends.$inferInsert)[] = []
  if (state === "settled" || state === "released" || state === "expired") {
    end.push({
      ...own,
      ...tokens,
      charge_nano,
      freed_nano: amount_nano,
      ...(ended_at instanceof Date && { ended_at }),
      ttft_ms: call.ttft_ms ?? null,
      duration_ms: call.duration_ms ?? null,
      outcome: state,
      basis,
      ending: endings.find((ending) => ending === call.ending) ?? null,
      failure: failures.find((failure) => failure === call.failure) ?? null,
      notes: call.notes ?? null,
    })
  }
  return {
    hold: {
      ...own,
      gateway_id,
      amount_nano,
      session_id: call.session_id ?? null,
      labels_id: call.labels_id ?? null,
      stream: call.stream ?? false,
      ...(held_at && { held_at }),
    },
    end,
    correction:
      corrected === undefined
        ? []
        : [{ ...own, difference_nano: corrected.charge_nano - charge_nano, basis, ...corrected }],
    checkpoint:
      checkpoint_nano === undefined
        ? []
        : [{ id, gateway_id, charge_nano: checkpoint_nano, basis, ...tokens }],
  }
}

function basisOf(text: string | null | undefined) {
  return bases.find((basis) => basis === text) ?? "none"
}

/**
 * Does to the entries of the ledger what nobody may do (D55): their triggers are off for these statements. For tests
 * that falsify or empty them.
 */
export async function falsify(database: Db, ...statements: readonly SQL[]): Promise<void> {
  await database.transaction(async (transaction) => {
    await transaction.execute(sql`SET LOCAL session_replication_role = replica`)
    for (const statement of statements) await transaction.execute(statement)
  })
}

interface Described {
  readonly parameters?: readonly { in: string; name: string; required: boolean; example: string }[]
  readonly [BODY]?: {
    content: { "application/json": { schema: TSchema; examples: Record<string, { value: object }> } }
  }
}

/** The operations of these routes, each with a valid body, its schema and a query string: the last ones of the reference. */
export function operationsOf({ routes }: ReturnType<typeof mount>) {
  return routes.map(({ method, path, hooks }) => {
    const { parameters = [], [BODY]: body }: Described = hooks.detail
    const { schema, examples = {} } = body?.content["application/json"] ?? {}
    const required = parameters.filter((each) => each.in === "query" && each.required)
    const query = new URLSearchParams(required.map(({ name, example }): [string, string] => [name, example]))
    return { method, path, query: `?${query}`, body: Object.values(examples).at(-1)?.value, schema }
  })
}
