import { expect } from "bun:test"
import { type Code, KINDS } from "../http/errors.ts"
import { chat } from "../support/gateway.ts"
import { chatCompletion, json, type Script, silent } from "../support/provider.ts"
import { type Changes, type Client, classBy, failureOf, type Session, shownBy } from "./client.ts"
import { type Cell, PLACES } from "./stage.ts"

/** Every way in which a call can fail for a client, how it is brought about, and what the client is to see. */
export interface Fault {
  readonly name: string
  readonly status: number
  /** The last is a provider's own. */
  readonly code: Code | "unsupported_value"
  readonly type: string
  readonly says: RegExp
  /** Whether a second try can help, and what tells: the status alone, or a header that not every client reads. */
  readonly repeatable: "yes" | "yes, soon enough" | "no" | "no, it says"
  readonly usd?: string
  /** The provider's answer to every call; without one no call is to reach it. */
  readonly script?: Script
  readonly changes?: (cell: Cell, family: Client["family"]) => Changes
  /** What is to stand before the client calls. */
  readonly setting?: (cell: Cell) => Promise<void>
  /** Only a chat completion can fail like this. */
  readonly chat_only?: boolean
}

type Row = Omit<Fault, "status" | "type">

const ROWS: readonly Row[] = [
  {
    name: "the request is not valid",
    code: "invalid_request",
    says: /`model`: expected a string of 1 to 256 characters\./,
    repeatable: "no",
    changes: () => ({ model: "" }),
  },
  {
    name: "the provider refuses the request, in its own words",
    code: "unsupported_value",
    says: /That value is not supported\./,
    repeatable: "no",
    script: json(400, {
      type: "error",
      error: {
        message: "That value is not supported.",
        code: "unsupported_value",
        type: "invalid_request_error",
      },
    }),
  },
  {
    name: "the key is wrong",
    code: "invalid_api_key",
    says: /The API key is missing, malformed, unknown, revoked or expired\./,
    repeatable: "no",
    changes: () => ({ key: "tg_live_wrong" }),
  },
  {
    name: "the balance is too low",
    code: "insufficient_balance",
    says: /needs a hold of .* USD|no available balance/,
    repeatable: "no",
    usd: "0",
  },
  {
    name: "the key's spending limit is reached",
    code: "spending_limit_reached",
    says: /the key can spend only .* more this day/,
    repeatable: "no",
    setting: ({ gateway, key_id }) =>
      gateway.admin("PATCH", `/keys/${key_id}`, { spending_limit: { amount: "0.0001", per: "day" } }),
    chat_only: true,
  },
  {
    name: "the key is suspended",
    code: "key_suspended",
    says: /suspended/,
    repeatable: "no",
    setting: ({ gateway, key_id }) => gateway.admin("PATCH", `/keys/${key_id}`, { suspended: true }),
  },
  {
    name: "the account is suspended",
    code: "account_suspended",
    says: /suspended/,
    repeatable: "no",
    setting: ({ gateway, account_id }) =>
      gateway.admin("PATCH", `/accounts/${account_id}`, { suspended: true }),
  },
  {
    name: "the model is not for this key or entry",
    code: "model_not_allowed",
    says: /This model does not support (chat|messages)\./,
    repeatable: "no",
    changes: ({ model, counter }, family) => ({ model: family === "chat" ? counter : model }),
  },
  {
    name: "there is no such model",
    code: "model_not_found",
    says: /This model does not exist\./,
    repeatable: "no",
    changes: () => ({ model: "nobody" }),
  },
  {
    name: "the key has too many calls running",
    code: "rate_limited",
    says: /its limit of concurrent calls/,
    repeatable: "yes",
    script: silent(),
    setting: occupy,
  },
  {
    name: "the provider has too much to do, with `Retry-After`",
    code: "rate_limited",
    says: /Too many requests/,
    repeatable: "yes",
    script: json(429, {}, { "retry-after": "0" }),
  },
  {
    name: "the provider has too much to do, without `Retry-After`",
    code: "rate_limited",
    says: /Too many requests/,
    repeatable: "yes, soon enough",
    script: json(429, {}),
  },
  {
    name: "the provider failed",
    code: "upstream_error",
    says: /The provider failed to complete/,
    repeatable: "yes",
    script: json(500, {}),
  },
  {
    name: "the provider's answer is blank (rule 3)",
    code: "usage_missing",
    says: /an empty response/,
    repeatable: "no, it says",
    script: json(200, " \n"),
    chat_only: true,
  },
  {
    name: "the provider's answer is malformed (rule 3)",
    code: "usage_invalid",
    says: /a malformed response/,
    repeatable: "no, it says",
    script: json(200, "<html>"),
    chat_only: true,
  },
  {
    name: "no provider can be reached",
    code: "upstream_unavailable",
    says: /No provider for this model/,
    repeatable: "yes",
    script: json(529, {}),
  },
  {
    name: "the provider is too slow",
    code: "upstream_timeout",
    says: /did not answer in time/,
    repeatable: "yes",
    script: json(504, {}),
  },
]

export const FAULTS: readonly Fault[] = ROWS.map((row) => {
  const [status, type] = KINDS[row.code === "unsupported_value" ? "invalid_request" : row.code]
  return { ...row, status, type }
})

/** What the page and the tests call it. */
export function titleOf({ status, code, name }: Fault): string {
  return `${status} \`${code}\`: ${name}`
}

/** Takes every place that the cell's key has. */
async function occupy(cell: Cell): Promise<void> {
  for (let place = 0; place < PLACES; place++) void chat(cell.gateway, cell.key, { model: cell.model })
  await cell.exchange(PLACES)
}

interface Suffered {
  readonly again: string
  readonly class_name: string
}

/** What the client sees of a fault, how often it tries, and what the provider and the ledger see of that. */
export async function suffer(client: Client, fault: Fault, cell: Cell): Promise<Suffered> {
  if (fault.script !== undefined) cell.answers(fault.script)
  await fault.setting?.(cell)
  const set = cell.exchanges.length
  const session = client.connect(cell, fault.changes?.(cell, client.family))
  const error = await failureOf(callOf(client, session))
  const shown = shownBy(client, error)
  expect(shown).toEqual({
    status: fault.status,
    code: fault.code,
    type: fault.type,
    message: expect.stringMatching(fault.says),
    "request id": expect.stringMatching(/^[0-9a-f-]{36}$/),
  })
  const repeated = isRepeated(client, fault)
  const tries = repeated ? 1 + client.repeats.times : 1
  expect(cell.door.requests_ms).toHaveLength(tries)
  for (const exchange of cell.exchanges.slice(0, set)) exchange.reset()
  const reached = fault.script !== undefined && fault.setting === undefined ? tries : 0
  expect(cell.exchanges.slice(set)).toHaveLength(reached)
  const calls = (await cell.calls()).slice(set)
  expect(calls).toHaveLength(client.family === "chat" ? reached : 0)
  for (const call of calls) expect(call).toMatchObject({ state: "released", charge: "0" })
  if (calls.length > 0) expect(calls.at(-1)?.id).toBe(String(shown["request id"]))
  return { again: repeated ? "repeats" : "once", class_name: `\`${classBy(client, error)}\`` }
}

function isRepeated(client: Client, { repeatable }: Fault): boolean {
  switch (repeatable) {
    case "yes":
      return true
    case "yes, soon enough":
      return client.repeats_bare_429
    case "no, it says":
      return !client.obeys_should_retry
    case "no":
      return false
  }
}

/** Longer than any pause of a client's own choice before its first repeat. */
const RETRY_AFTER_S = 3
/** A timer may come so much too early. */
const TIMER_MS = 5

/** A provider that asks the client to wait once: the client waits, and then gets its answer. */
export async function obeyRetryAfter(client: Client, cell: Cell): Promise<string> {
  const answer = client.family === "chat" ? chatCompletion("at last") : { input_tokens: 7 }
  cell.answers(json(429, {}, { "retry-after": String(RETRY_AFTER_S) }), json(200, answer))
  await callOf(client, client.connect(cell))
  const [first = 0, second = 0, ...more] = cell.door.requests_ms
  expect(more).toEqual([])
  expect(second - first + TIMER_MS).toBeGreaterThanOrEqual(RETRY_AFTER_S * 1_000)
  const charged = client.family === "chat" ? [{ state: "released", charge: "0" }, { state: "settled" }] : []
  expect(await cell.calls()).toMatchObject(charged)
  return "obeys"
}

function callOf(client: Client, session: Session): Promise<unknown> {
  return client.family === "chat" ? session.chat() : session.count()
}
