import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { migrate } from "drizzle-orm/postgres-js/migrator"
import { Elysia } from "elysia"
import { errorResponse, GatewayError, toGatewayError } from "../../src/errors.ts"
import { floorId, nextId } from "../../src/id.ts"
import { connect } from "../../src/ledger/database/address.ts"
import { reservations } from "../../src/ledger/schema.ts"
import { adminRoutes, type Operators } from "../../src/routes/admin/admin.ts"
import { freshDatabase } from "../support/database.ts"

export const TOKEN = "operator-token-of-the-tests"

export const LIMITS: Operators["limits"] = {
  body_bytes: 64 * 1024,
  body_timeout_ms: 5_000,
  response_bytes: 1,
  event_bytes: 1,
  in_flight: 1,
  per_key: { in_flight: null, requests_per_minute: null },
}

/** What the tests read of an answer before they assert the rest. */
interface Body {
  readonly id: string
  readonly next: string | null
  readonly data: readonly Body[]
  readonly account: Body
  readonly balance: string
  readonly key: string
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
export interface Office {
  readonly database: PostgresJsDatabase
  readonly app: { handle(request: Request): Promise<Response> }
  /** The text of every answer, but those of a key's creation. */
  readonly texts: readonly string[]
  ask(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>
  /** Follows `next` from `path` to the end: the ids in the order they came. */
  walk(path: string, limit: number): Promise<string[]>
  openAccount(name?: string): Promise<string>
  close(): Promise<void>
}

export async function openOffice(options: Partial<Operators> = {}): Promise<Office> {
  const { address, drop } = await freshDatabase()
  const client = connect(address, { max: 20, onnotice: () => {} })
  const database = drizzle(client)
  await migrate(database, { migrationsFolder: new URL("../../drizzle", import.meta.url).pathname })
  const app = mount({ admin_token: TOKEN, database, limits: LIMITS, deadline_ms: 10_000, ...options })
  const texts: string[] = []

  async function ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    const request = new Request(`http://localhost${path}`, {
      method,
      headers: {
        authorization: `Bearer ${TOKEN}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    })
    const response = await app.handle(request)
    const reply = await read(response)
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

/** The routes below an error printer like the application's; without upstreams unless told. */
export function mount(operators: Omit<Operators, "upstreams"> & Partial<Operators>) {
  return new Elysia({ strictPath: true })
    .onError(({ error, code }) =>
      errorResponse(code === "NOT_FOUND" ? new GatewayError("not_found") : toGatewayError(error), nextId()),
    )
    .use(adminRoutes({ upstreams: async () => [], ...operators }))
}

export async function read(response: Response): Promise<Reply> {
  const text = await response.text()
  const { status, headers } = response
  return { status, headers, text, body: text === "" ? null : JSON.parse(text) }
}

/** The error object of a refused request, without what differs from case to case. */
export function refusal({ status, body }: Reply) {
  return { status, code: body.error.code, param: body.error.param }
}

/** An id as if its call had arrived at `at`. */
export function idAt(at: Date): string {
  return `${floorId(at).slice(0, 14)}7${nextId().slice(15)}`
}

/** Writes a call into the books as they stand, without moving a balance; an open hold of 5,000 nano-USD unless told. */
export async function plantCall(
  database: PostgresJsDatabase,
  call: Partial<typeof reservations.$inferInsert> & { account_id: string },
): Promise<string> {
  const id = call.id ?? (call.started_at instanceof Date ? idAt(call.started_at) : nextId())
  await database.insert(reservations).values({
    id,
    key_id: nextId(),
    gateway_id: nextId(),
    amount_nano: 5_000n,
    input_pico: 250_000n,
    cached_input_pico: 25_000n,
    output_pico: 2_000_000n,
    stream: false,
    model: "gpt-5-mini",
    family: "chat",
    upstream: "openai",
    ...call,
  })
  return id
}
