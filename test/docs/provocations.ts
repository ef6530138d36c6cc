import type { ErrorCode } from "../../src/errors.ts"
import { isObject } from "../../src/wire/usage.ts"
import { shutOut, withSql } from "../support/database.ts"
import { ADMIN_TOKEN, untilIs } from "../support/gateway.ts"
import { chatCompletion, json, type Script, silent } from "../support/provider.ts"
import { dial } from "../support/raw-client.ts"
import { requestBytes } from "../support/request.ts"
import { type Entry, requiredQuery } from "./reference.ts"
import { referenceApp } from "./reference-app.ts"
import { letManageKeys } from "./scenes.ts"
import { type Answer, type Asking, read, requestOf, type Stage, type World } from "./stage.ts"

/** How each error comes about: requests that may meet it, until one does; and what must be so meanwhile, for all operations. */
interface Provocation {
  attempts(stage: Stage, entry: Entry): AsyncGenerator<Answer>
  around?<Result>(stage: Stage, work: () => Promise<Result>): Promise<Result>
  /** Of all operations at once: each takes its time to fail. */
  readonly together?: boolean
}

const NO_ID = "019f0000-0000-7000-8000-000000000000"
/** Of January 2020. */
const OLD_ID = "016f5e66-e800-7000-8000-000000000000"
/** Too little for the hold of a call, and for any. */
const LITTLE = ["0.0021", "0.0000001"]
const SMALL_BODY = { limits: { body: "1KiB" } }
const SMALL_RESPONSE = { limits: { response: "1KiB" } }
const IMPATIENT = { limits: { body_timeout: "50ms" } }
const ONE_A_MINUTE = { limits: { per_key: { requests_per_minute: 1 } } }
const ONE_AT_A_TIME = { limits: { in_flight: 1 } }

/** One for every code: a new code of the catalogue needs its own to compile. */
export const provocations: Readonly<Record<ErrorCode, Provocation>> = {
  invalid_request: { attempts: wrongRequests },
  invalid_api_key: { attempts: asked(sharedWorld, { credential: "tg_live_wrong" }) },
  insufficient_balance: { attempts: withAmounts(["0.0021", "0"], (stage, usd) => stage.world(usd)) },
  spending_limit_reached: {
    attempts: withAmounts(LITTLE, (stage, amount) =>
      limited(stage, { spending_limit: { amount, per: "day" } }),
    ),
  },
  budget_reached: {
    attempts: withAmounts(LITTLE, (stage, amount) =>
      changed(stage, "POST", (world) => `/accounts/${world.account_id}/budgets`, {
        ...{ name: "Search team", selector: "all", amount, per: "total" },
      }),
    ),
  },
  account_suspended: {
    attempts: asked((stage) =>
      changed(stage, "PATCH", ({ account_id }) => `/accounts/${account_id}`, { suspended: true }),
    ),
  },
  key_suspended: {
    attempts: asked((stage) =>
      changed(stage, "PATCH", ({ key_id }) => `/keys/${key_id}`, { suspended: true }),
    ),
  },
  key_change_not_allowed: { attempts: asked(limited) },
  idempotency_key_used: { attempts: (stage, entry) => repeated(stage, entry, {}) },
  idempotency_key_reused: { attempts: (stage, entry) => repeated(stage, entry, { user: "another" }) },
  tag_not_declared: {
    attempts: asked(sharedWorld, { headers: { "x-tollgate-tags": "taem=search" } }),
  },
  tag_required: { attempts: asked((stage) => limited(stage, { required_tags: ["team"] })) },
  role_required: {
    async *attempts(stage, entry) {
      const { token: credential } = await stage.operator("read")
      yield await stage.ask(entry, await sharedWorld(stage), { ...plain(entry), credential })
    },
  },
  model_not_allowed: { attempts: asked((stage) => limited(stage, { models: ["another"] })) },
  not_found: {
    async *attempts(stage, entry) {
      const world = await sharedWorld(stage)
      if (
        /\/(?:accounts|keys|budgets|prices|calls|sinks|operators|price-lists|assignments)\/\{/.test(
          entry.path,
        )
      ) {
        if (entry.path.startsWith("/v1/keys")) await letManageKeys(stage, world)
        yield await stage.ask(entry, world, { ...plain(entry), id: NO_ID })
      }
      for (const place of ["lost", "2999-01"]) {
        const lost = { ...entry, path: entry.path.replace(/\{\w+\}$/, place) }
        if (lost.path !== entry.path) yield await stage.ask(lost, world, plain(entry))
      }
      yield* refused(stage, entry, 404)
    },
  },
  model_not_found: {
    async *attempts(stage, entry) {
      const world = await sharedWorld(stage)
      const named = { ...entry, path: entry.path.replace("{model}", "no-such-model") }
      if (named.path !== entry.path) yield await stage.ask(named, world)
      else yield await stage.ask(entry, world, { body: { ...bodyOf(entry), model: "no-such-model" } })
    },
  },
  method_not_allowed: {
    async *attempts(stage, entry) {
      yield await stage.ask({ ...entry, method: "PUT" }, await sharedWorld(stage))
    },
  },
  archived: {
    async *attempts(stage, entry) {
      const world = await sharedWorld(stage)
      yield await stage.ask(entry, world, { ...plain(entry), id: OLD_ID })
      yield await stage.ask(entry, world, { query: { from: "2020-01-01" } })
      yield await stage.ask(entry, world, { body: { from: "2020-01-01T00:00:00Z" } })
    },
    around: withOldMonth,
  },
  request_timeout: {
    attempts: unfinished,
    around: (stage, work) => stage.configured(IMPATIENT, work),
  },
  request_too_large: {
    async *attempts(stage, entry) {
      yield await stage.ask(entry, await sharedWorld(stage), {
        body: { ...bodyOf(entry), name: "x".repeat(2048) },
      })
    },
    around: (stage, work) => stage.configured(SMALL_BODY, work),
  },
  unsupported_media_type: { attempts: asked(sharedWorld, { headers: { "content-type": "text/plain" } }) },
  rate_limited: {
    async *attempts(stage, entry) {
      const world = await limited(stage)
      const twice = async () => {
        await stage.ask(entry, world, plain(entry))
        return stage.ask(entry, world, plain(entry))
      }
      yield await stage.configured(ONE_A_MINUTE, twice)
      yield* refused(stage, entry, 429)
    },
  },
  internal_error: {
    async *attempts(stage, entry) {
      const world = await sharedWorld(stage)
      yield await broken(entry, world)
      yield await stage.ask(entry, world, plain(entry))
    },
    around: withoutTables,
    together: true,
  },
  usage_missing: { attempts: (stage, entry) => refused(stage, entry, 200) },
  usage_invalid: { attempts: answered(json(200, "<html></html>")) },
  response_too_large: {
    attempts: answered(json(200, chatCompletion("x".repeat(2_000)))),
    around: (stage, work) => stage.configured(SMALL_RESPONSE, work),
  },
  upstream_error: { attempts: (stage, entry) => refused(stage, entry, 500) },
  upstream_unavailable: { attempts: (stage, entry) => refused(stage, entry, 503) },
  overloaded: { attempts: crowded },
  ledger_unavailable: {
    async *attempts(stage, entry) {
      yield await stage.ask(entry, await sharedWorld(stage), plain(entry))
      const headers = { cookie: session, "sec-fetch-site": "same-origin" }
      yield await stage.ask(entry, await sharedWorld(stage), { ...plain(entry), credential: null, headers })
    },
    around: withoutDatabase,
    together: true,
  },
  upstream_timeout: { attempts: (stage, entry) => refused(stage, entry, 504) },
}

/** The request of the first example, changed by `more`. */
function asked(world: (stage: Stage) => Promise<World>, more: Asking = {}): Provocation["attempts"] {
  return async function* (stage, entry) {
    yield await stage.ask(entry, await world(stage), { ...plain(entry), ...more })
  }
}

function withAmounts(amounts: readonly string[], world: (stage: Stage, usd: string) => Promise<World>) {
  return async function* (stage: Stage, entry: Entry) {
    for (const usd of amounts) yield* asked(() => world(stage, usd))(stage, entry)
  }
}

/** While the provider gives this answer. */
function answered(answer: Script): Provocation["attempts"] {
  return (stage, entry) => {
    stage.provider.replyOnce(answer)
    return asked(limited)(stage, entry)
  }
}

/** An account with a key after this change. */
async function changed(stage: Stage, method: string, pathOf: (world: World) => string, change: object) {
  const world = await limited(stage)
  await stage.gateway.admin(method, pathOf(world), change)
  return world
}

/** The request of the first example. */
function plain(entry: Entry): Asking {
  const body = bodyOf(entry)
  const query = requiredQuery(entry)
  return body === undefined ? { query } : { body, query }
}

function bodyOf({ operation }: Entry): Readonly<Record<string, unknown>> | undefined {
  const [first] = Object.values(operation.requestBody?.content["application/json"]?.examples ?? {})
  return isObject(first?.value) ? first.value : undefined
}

/** Each field of the body left out and of a wrong kind; each parameter nonsense, and one that there is not. */
async function* wrongRequests(stage: Stage, entry: Entry): AsyncGenerator<Answer> {
  // A body that changes something is valid without some of its fields.
  const world = entry.method === "PATCH" ? await stage.world() : await sharedWorld(stage)
  const schema = entry.operation.requestBody?.content["application/json"]?.schema
  if (schema !== undefined) {
    const body = bodyOf(entry) ?? {}
    yield await stage.ask(entry, world, { body: {} })
    for (const field of Object.keys(isObject(schema.properties) ? schema.properties : {})) {
      for (const wrong of [undefined, [], false]) {
        yield await stage.ask(entry, world, { body: { ...body, [field]: wrong } })
      }
    }
    yield await stage.ask(entry, world, { body: { ...body, nonsense: true } })
  }
  yield await stage.ask(entry, world, { ...plain(entry), query: { nonsense: "1" } })
  for (const { name, in: place } of entry.operation.parameters ?? []) {
    const wrong = place === "query" ? { query: { [name]: "nonsense" } } : { headers: { [name]: "nonsense" } }
    if (place !== "path") yield await stage.ask(entry, world, { ...plain(entry), ...wrong })
  }
}

/** The provider answers so, with nothing in the body; a good call afterwards keeps the breaker closed. */
async function* refused(stage: Stage, entry: Entry, status: number): AsyncGenerator<Answer> {
  const { provider } = stage
  const world = await limited(stage)
  const asked = provider.requests.length
  provider.replyOnce(json(status, ""))
  const answer = await stage.ask(entry, world, plain(entry))
  if (provider.requests.length > asked) await stage.ask(entry, world, plain(entry))
  else await stage.call(world.key)
  yield answer
}

/** The same request twice under one Idempotency-Key, the second time with these further fields. */
async function* repeated(stage: Stage, entry: Entry, further: object): AsyncGenerator<Answer> {
  const world = await limited(stage)
  const headers = { "idempotency-key": crypto.randomUUID() }
  await stage.ask(entry, world, { ...plain(entry), headers })
  yield await stage.ask(entry, world, { body: { ...bodyOf(entry), ...further }, headers })
}

/** Reads of the account itself, of which 128 may wait; of reports, 4. */
const SHORT_READS = /\/(?:account|calls\/\{id\}|keys|statements)$/

/** While one call has the only place; and while so many requests wait for the ledger that one more may not. */
async function* crowded(stage: Stage, entry: Entry): AsyncGenerator<Answer> {
  const world = await limited(stage)
  const changes_keys = entry.path.startsWith("/v1/keys")
  if (changes_keys) await letManageKeys(stage, world)
  if (bodyOf(entry) !== undefined && !changes_keys) {
    const asked = stage.provider.requests.length
    stage.provider.replyOnce(silent())
    const first = stage.ask(entry, world, plain(entry))
    const exchange = await stage.provider.exchange(asked + 1)
    try {
      yield await stage.configured(ONE_AT_A_TIME, () => stage.ask(entry, world, plain(entry)))
    } finally {
      // An answer, so that the breaker of the upstream stays closed.
      await json(200, {})(exchange)
      await first
      // Keeps the breaker closed.
      await stage.call(world.key)
    }
  }
  const unlocked = Promise.withResolvers<void>()
  const locked = Promise.withResolvers<void>()
  const lock = withSql(stage.gateway.address, (client) =>
    client.begin(async (sql) => {
      if (changes_keys) await sql`SELECT FROM tollgate.accounts WHERE id = ${world.account_id} FOR UPDATE`
      else await sql`LOCK TABLE tollgate.ends IN ACCESS EXCLUSIVE MODE`
      locked.resolve()
      await unlocked.promise
    }),
  )
  await locked.promise
  const length = SHORT_READS.test(entry.path) ? 200 : 40
  const waiting = Array.from({ length }, () => stage.ask(entry, world, plain(entry)))
  await Promise.race(waiting)
  unlocked.resolve()
  await lock
  yield* await Promise.all(waiting)
}

/** An account with a key of these limits that has made no call. */
async function limited(stage: Stage, limits: object = {}): Promise<World> {
  const { id, key, key_id } = await stage.gateway.account("10")
  if (Object.keys(limits).length === 0)
    return { account_id: id, credit_id: NO_ID, key, key_id, call_id: NO_ID, ...NONE }
  const made = await stage.gateway.admin<{ id: string; key: string }>("POST", `/accounts/${id}/keys`, limits)
  return { account_id: id, credit_id: NO_ID, key: made.key, key_id: made.id, call_id: NO_ID, ...NONE }
}

const NONE = { sink_id: NO_ID, list_id: NO_ID, assignment_id: NO_ID }

/** The head of a request whose body never comes. */
async function* unfinished(stage: Stage, entry: Entry): AsyncGenerator<Answer> {
  const { url, init } = requestOf(entry, await sharedWorld(stage), plain(entry))
  const headers = Object.entries(init.headers).map(([name, value]) => `${name}: ${value}`)
  const line = dial(stage.gateway)
  line.send(requestBytes({ method: init.method, target: url, headers: [...headers, "content-length: 100"] }))
  const answer = await line.answer()
  line.leave()
  yield read(new Response(answer.body, { status: answer.status, headers: answer.headers }))
}

let bare: ReturnType<typeof referenceApp> | null = null

/** The answer of an application that lacks what it needs. */
async function broken(entry: Entry, world: World): Promise<Answer> {
  bare ??= referenceApp()
  const text = JSON.stringify(plain(entry)).replaceAll("gpt-5-mini", "demo-small")
  const asking: Asking = JSON.parse(text.replaceAll("claude-sonnet", "demo-messages"))
  const { url, init } = requestOf(entry, world, asking)
  return read(await bare.handle(new Request(`http://localhost${url}`, init)))
}

/** Runs `work` between two statements of a connection of its own. */
async function between<Result>(stage: Stage, before: string, work: () => Promise<Result>, after: string) {
  return withSql(stage.gateway.address, async (sql) => {
    await sql.unsafe(before)
    return work().finally(() => sql.unsafe(after))
  })
}

/** Runs `work` while the tables have another name, which no statement knows. */
async function withoutTables<Result>(stage: Stage, work: () => Promise<Result>): Promise<Result> {
  await sharedWorld(stage)
  return between(
    stage,
    "ALTER SCHEMA tollgate RENAME TO elsewhere",
    work,
    "ALTER SCHEMA elsewhere RENAME TO tollgate",
  )
}

/** Runs `work` while January 2020 is a detached month. */
function withOldMonth<Result>(stage: Stage, work: () => Promise<Result>): Promise<Result> {
  return between(
    stage,
    `INSERT INTO tollgate.months (month, to_id, detached_at, archive)
      VALUES ('2020-01-01', tollgate.month_id('2020-02-01'), now(), 's3://backups/2020-01.gz')`,
    work,
    "DELETE FROM tollgate.months WHERE month = '2020-01-01'",
  )
}

let shared: World | null = null

/** For requests that leave it as it is, or that come while no other can be made. */
async function sharedWorld(stage: Stage): Promise<World> {
  if (shared !== null) return shared
  const world = await stage.world()
  shared = {
    ...world,
    ...(await stage.list(world)),
    sink_id: await stage.sink(),
    operator_id: (await stage.operator("read")).id,
  }
  return shared
}

/** The cookie of an operator's browser that signed in, which only the database knows to be open (D50). */
let session = ""

/** Runs `work` while Postgres lets nobody in; afterwards the gateway has found it again. */
async function withoutDatabase<Result>(stage: Stage, work: () => Promise<Result>): Promise<Result> {
  await sharedWorld(stage)
  const { address, url } = stage.gateway
  const authorization = `Bearer ${ADMIN_TOKEN}`
  const signed_in = await fetch(`${url}/admin/session`, { method: "POST", headers: { authorization } })
  session = signed_in.headers.get("set-cookie")?.split(";")[0] ?? "none"
  const { admit } = await shutOut(address)
  try {
    return await work()
  } finally {
    await admit()
    const ready = () => fetch(`${stage.gateway.url}/readyz`).then(({ status }) => status)
    await untilIs(ready, 200)
  }
}
