import { completeChat } from "../../src/demo/chat.ts"
import { embed, embeddingsModel } from "../../src/demo/embeddings.ts"
import { completeMessage, messagesModel } from "../../src/demo/messages.ts"
import { respond } from "../../src/demo/responses.ts"
import { PrefixCache, promptTokens } from "../../src/demo/tokens.ts"
import { parseUsd, printUsd } from "../../src/money.ts"
import type { Role } from "../../src/wire/roles.ts"
import { isObject, parseJson } from "../../src/wire/usage.ts"
import { ADMIN_TOKEN, type ConfigChanges, endSound, startGateway, until } from "../support/gateway.ts"
import { type Exchange, json, startProvider } from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { ofFile } from "../support/test-gateway.ts"
import { exampleConfiguration } from "./blocks.ts"
import { type Document, type Entry, entriesOf } from "./reference.ts"

export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** The media type without its parameters; empty without a body. */
  readonly type: string
  readonly text: string
  /** Undefined where it is no JSON. */
  readonly json: unknown
}

/** Who pays, with what, and a call that was made: what the addresses of the operations name. */
export interface World {
  readonly account_id: string
  readonly credit_id: string
  readonly key: string
  readonly key_id: string
  readonly budget_id?: string
  readonly price_id?: string
  readonly call_id: string
  /** Made for a request that names one: the gateway serves every sink. */
  readonly sink_id?: string
  readonly operator_id?: string
  /** The same, with an assignment to the account. */
  readonly list_id?: string
  readonly assignment_id?: string
}

/** How one request differs from the operation's own. */
export interface Asking {
  /** A text is sent as it is. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** In place of the operation's; null for none. */
  readonly credential?: string | null
  /** Parameters of the query string; a list of everything is otherwise asked for what belongs to the account. */
  readonly query?: Readonly<Record<string, string>>
  /** In place of every id in the path. */
  readonly id?: string
}

/** The stage of a test file, closed after its last test. */
export const testStage = () => ofFile(openStage())

export type Stage = Awaited<ReturnType<typeof openStage>>

/** Of a key for every model. */
const LIMITS = {
  name: "production",
  models: ["gpt-5-mini", "text-embedding-3-small", "claude-sonnet"],
  spending_limit: { amount: "25", per: "day" },
  group: "acme/search",
}

/** A customer's price that holds for no call of a test. */
export const SCHEDULED_PRICE = {
  model: "gpt-5-mini",
  prices: { input: "0.2", output: "1.6" },
  from: new Date(Date.now() + 86_400_000).toISOString(),
  until: "2100-01-01T00:00:00Z",
  reason: "Contract 118",
}

/** The configuration of docs/configuration.md, its providers replaced by one at `url`. */
function configuration(url: string): ConfigChanges {
  const file: unknown = Bun.YAML.parse(exampleConfiguration().replaceAll(/\$\{\w+\}/g, "sk-provider"))
  if (!isObject(file) || !isObject(file.upstreams))
    throw new Error("docs/configuration.md names no upstreams")
  const { openai, anthropic } = file.upstreams
  if (!isObject(openai) || !isObject(anthropic))
    throw new Error("docs/configuration.md names other upstreams")
  return {
    ...file,
    upstreams: { openai: { ...openai, base_url: `${url}/v1` }, anthropic: { ...anthropic, base_url: url } },
  }
}

/** A gateway with the file of docs/configuration.md before a provider that answers as the demo's does, and the reference that it serves. */
async function openStage() {
  const provider = await startProvider()
  const cache = new PrefixCache()
  provider.reply((exchange) => answer(exchange, cache))
  const config = configuration(provider.url)
  const gateway = await startGateway(provider, config)
  const document: Document = JSON.parse(await (await fetch(`${gateway.url}/docs/json`)).text())
  const entries = entriesOf(document)

  async function ask(entry: Entry, world: World, asking: Asking = {}): Promise<Answer> {
    const needs_sink = world.sink_id === undefined && entry.path.includes("/sinks/{")
    const needs_list = world.list_id === undefined && /\/(?:price-lists|assignments)\/\{/.test(entry.path)
    const needs_operator = world.operator_id === undefined && entry.path.includes("/operators/{")
    const whole = {
      ...world,
      ...(needs_sink && { sink_id: await sink() }),
      ...(needs_list && (await list(world))),
      ...(needs_operator && { operator_id: (await operator("read")).id }),
    }
    const { url, init } = requestOf(entry, whole, asking)
    return read(await fetch(gateway.url + url, init))
  }

  async function sink(): Promise<string> {
    // Nothing to deliver, because a sink whose delivery fails is not active.
    const from = new Date(Date.now() + 3_600_000).toISOString()
    const made = { name: `sink-${crypto.randomUUID()}`, url: "https://billing.example.com/tollgate", from }
    return (await gateway.admin<{ id: string }>("POST", "/sinks", made)).id
  }

  /** Makes a price list that the account will have. */
  async function list({ account_id }: World) {
    const { model, prices, from, until, reason } = SCHEDULED_PRICE
    const made = {
      name: `list-${crypto.randomUUID()}`,
      prices: [{ model, prices }, { price_multiplier: "0.9" }],
      reason,
    }
    const { id: list_id } = await gateway.admin<{ id: string }>("POST", "/price-lists", made)
    const assignment = { account_id, from, until, reason }
    const path = `/price-lists/${list_id}/assignments`
    return { list_id, assignment_id: (await gateway.admin<{ id: string }>("POST", path, assignment)).id }
  }

  /** Makes an operator with a token of its own (D101). */
  function operator(role: Role) {
    return gateway.admin<{ id: string; name: string; token: string }>("POST", "/operators", {
      name: crypto.randomUUID(),
      role,
    })
  }

  /** A new account with a key and one finished call, streamed. */
  async function world(usd = "10", limits: object = LIMITS) {
    const { admin } = gateway
    const { id: account_id } = await admin<{ id: string }>("POST", "/accounts", { name: "Acme" })
    const credit = { amount: "10", reason: "Invoice 2026-118" }
    const { id: credit_id } = await admin<{ id: string }>("POST", `/accounts/${account_id}/credits`, credit)
    const made = await admin<{ id: string; key: string }>("POST", `/accounts/${account_id}/keys`, limits)
    const budget = {
      name: "Search team",
      selector: "group",
      selected: "acme/search",
      thresholds: [80, 100],
      amount: "500",
      per: "month",
    }
    const { id: budget_id } = await admin<{ id: string }>("POST", `/accounts/${account_id}/budgets`, budget)
    const prices = `/accounts/${account_id}/prices`
    const { id: price_id } = await admin<{ id: string }>("POST", prices, SCHEDULED_PRICE)
    const call_id = await call(made.key)
    if (usd !== "10") await leaving(account_id, usd)
    return { account_id, credit_id, key: made.key, key_id: made.id, budget_id, price_id, call_id }
  }

  /** Takes off so much that `usd` is available. */
  async function leaving(account_id: string, usd: string): Promise<void> {
    const { available } = await gateway.balance(account_id)
    const surplus_nano = (parseUsd(available) ?? 0n) - (parseUsd(usd) ?? 0n)
    await gateway.admin("POST", `/accounts/${account_id}/credits`, { amount: printUsd(-surplus_nano) })
  }

  /** Makes a call that succeeds, if the key may; its id, once it has ended. */
  async function call(key: string): Promise<string> {
    const answer = await read(
      await postJson(`${gateway.url}/v1/chat/completions`, key, {
        model: "gpt-5-mini",
        stream: true,
        messages: [{ role: "user", content: "Hello." }],
      }),
    )
    const id = answer.headers.get("x-request-id") ?? "none"
    // On a busy machine the last byte leaves when only the disk has the end (D32).
    const state = async () => (answer.status === 200 ? (await gateway.call(id)).state : "refused")
    await until(state, (is) => is !== "open")
    return id
  }

  return {
    gateway,
    provider,
    config,
    document,
    entries,
    ask,
    world,
    sink,
    operator,
    call,
    list,
    /** Runs `work` while the configuration has these sections. */
    async configured<Result>(changes: ConfigChanges, work: () => Promise<Result>): Promise<Result> {
      await gateway.reload({ ...config, ...changes })
      try {
        return await work()
      } finally {
        await gateway.reload(config)
      }
    },
    async close() {
      await endSound(gateway, provider)
    },
  }
}

function completed(path: string, body: object, cache: PrefixCache) {
  if (path.endsWith("/v1/messages")) return completeMessage({ ...body, model: messagesModel }, cache)
  const complete = path.endsWith("/responses") ? respond : completeChat
  return complete({ ...body, model: "demo-small" }, cache)
}

/** As the demo's provider answers, without its pace. */
async function answer(exchange: Exchange, cache: PrefixCache): Promise<void> {
  const body = isObject(exchange.request.json) ? exchange.request.json : {}
  if (exchange.request.path.endsWith("/count_tokens")) {
    return await json(200, { input_tokens: promptTokens(body).length })(exchange)
  }
  if (exchange.request.path.endsWith("/embeddings"))
    return await json(200, embed({ ...body, model: embeddingsModel }))(exchange)
  const completion = completed(exchange.request.path, body, cache)
  if ("json" in completion) return await json(200, completion.json)(exchange)
  await exchange.head(200, { "content-type": "text/event-stream", "x-request-id": "req_7f3a9c1e" })
  for (const burst of completion.bursts) await exchange.chunk(burst)
  await exchange.end()
}

/** The request of an operation: its address filled with ids, its credential, its headers that must be there. */
export function requestOf(entry: Entry, world: World, { body, headers, credential, query, id }: Asking) {
  const shown = credentialOf(entry, world, credential)
  const required = (entry.operation.parameters ?? []).filter(
    (parameter) => parameter.in === "header" && parameter.required,
  )
  return {
    url: `${pathOf(entry, world, id)}${search({ ...own(entry, world), ...query })}`,
    init: {
      method: entry.method,
      headers: {
        ...Object.fromEntries(required.map(({ name, example }) => [name, String(example)])),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...shown,
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === "string" ? body : JSON.stringify(ofWorld(body, world)) }),
    },
  }
}

/** A request that names an account names this one. */
function ofWorld(body: unknown, { account_id }: World): unknown {
  return isObject(body) && typeof body.account_id === "string" ? { ...body, account_id } : body
}

function search(query: Readonly<Record<string, string>>): string {
  const text = String(new URLSearchParams(query))
  return text === "" ? "" : `?${text}`
}

function own({ operation }: Entry, { account_id }: World): Record<string, string> {
  const { parameters = [] } = operation
  const has_account = parameters.some(({ name, in: place }) => name === "account" && place === "query")
  return has_account ? { account: account_id } : {}
}

function credentialOf({ operation }: Entry, world: World, credential?: string | null) {
  const [scheme] = operation.security?.flatMap(Object.keys) ?? []
  if (scheme === undefined || credential === null) return {}
  const value = credential ?? (scheme === "adminToken" ? ADMIN_TOKEN : world.key)
  return scheme === "xApiKey" ? { "x-api-key": value } : { authorization: `Bearer ${value}` }
}

/** Ids stand after what they are ids of; anything else in a path must have an example. */
function pathOf({ name, path, operation }: Entry, world: World, id?: string): string {
  const ids: Readonly<Record<string, string>> = {
    accounts: world.account_id,
    credits: world.credit_id,
    keys: world.key_id,
    calls: world.call_id,
    ...(world.budget_id !== undefined && { budgets: world.budget_id }),
    ...(world.price_id !== undefined && { prices: world.price_id }),
    ...(world.sink_id !== undefined && { sinks: world.sink_id }),
    ...(world.operator_id !== undefined && { operators: world.operator_id }),
    ...(world.list_id !== undefined && { "price-lists": world.list_id }),
    ...(world.assignment_id !== undefined && { assignments: world.assignment_id }),
  }
  return path.replaceAll(/([\w-]*)\/\{(\w+)\}/g, (_, before: string, parameter: string) => {
    const example = operation.parameters?.find((one) => one.name === parameter)?.example
    const value = (before in ids ? id : undefined) ?? ids[before] ?? example
    if (value === undefined) throw new Error(`${name}: give the parameter ${parameter} an example`)
    return `${before}/${value}`
  })
}

export async function read(response: Response): Promise<Answer> {
  const text = await response.text()
  const [type = ""] = (response.headers.get("content-type") ?? "").split(";")
  return { status: response.status, headers: response.headers, type, text, json: parseJson(text) }
}
