import { ElysiaCustomStatusResponse } from "elysia"
import { isId, nextId } from "../../id.ts"
import type { NewChange } from "../../ledger/accounts/operator-log.ts"
import { changeOutcome } from "../../wire/operators.ts"
import { objectOf } from "../../wire/usage.ts"
import {
  accountBody,
  assignmentBody,
  budgetBody,
  creditBody,
  customerPriceBody,
  keyBody,
  operatorBody,
  priceListBody,
} from "../record-bodies.ts"
import { actorOf, checkRole, reasonOf } from "./authorize.ts"
import type { Operators } from "./operators.ts"
import { rightsFor, roleFor } from "./roles.ts"
import { sinkBody } from "./sinks.ts"

/** The hooks that write the log of changes (D102, D104): an entry before each change, and its outcome after it. */

type ChangeLog = Pick<Operators, "ledger" | "addressOf" | "onChange" | "admin_token">

interface ChangeRequest {
  readonly request: Request
  readonly route: string
  readonly params?: { readonly id?: string | null }
}

/** Bodies as they were sent, without secrets; a validated body has amounts and times, not their texts. */
const bodies = new WeakMap<Request, unknown>()
/** By request, the function that ends its entry. */
const running = new WeakMap<Request, (status: number, answer: unknown) => Promise<void>>()

const FORWARDED_CHARACTERS = 200
/** Longer JSON is left out of an entry. */
const MAX_CHARACTERS = 64 * 1024

/** Keeps the body of a request for the log. */
export function keepBody(request: Request, body: object, admin_token: string | null): void {
  bodies.set(request, withoutSecrets(body, admin_token))
}

/** A hook before the handler of a valid request: checks the role for its body (D101), and writes the entry. */
export function beginning(operators: Operators) {
  return async ({ request, route, params: { id = null } = {} }: ChangeRequest): Promise<void> => {
    const rights = rightsFor(request.method, route)
    checkRole(request, roleFor(rights, bodies.get(request) ?? null))
    if (rights.is_change === false) return
    const { name, role, operator_id } = actorOf(request)
    await begin(operators, request, { actor: name, role, operator_id, route, resource_id: id })
  }
}

/** Writes the entry of a change that is about to run. */
export async function begin(
  { ledger, addressOf, onChange, admin_token }: ChangeLog,
  request: Request,
  change: Pick<NewChange, "actor" | "role" | "operator_id" | "route" | "resource_id">,
): Promise<void> {
  const id = nextId()
  const { headers, method } = request
  const { route, resource_id, role } = change
  const body = bodies.get(request) ?? null
  const shown = (value: unknown) => limited(withoutSecrets(value, admin_token))
  const read = readers[route.split("/")[2] ?? ""]
  const resource = async () =>
    resource_id === null || read === undefined ? null : shown(await read(ledger, resource_id))
  const { reason: own_reason } = objectOf(body)
  const reason = typeof own_reason === "string" ? own_reason : reasonOf(request)
  await ledger.beginChange({
    id,
    ...change,
    method,
    address: addressOf?.(request) ?? null,
    forwarded_for: headers.get("x-forwarded-for")?.slice(0, FORWARDED_CHARACTERS) ?? null,
    reason: reason && textWithout(reason, admin_token),
    request: limited(body),
    before: await resource(),
  })
  running.set(request, async (status, answer) => {
    const { id: made } = objectOf(answer)
    const made_id = typeof made === "string" && isId(made) ? made : null
    const after = status >= 400 ? null : answer === undefined ? await resource() : shown(answer)
    await ledger.endChange({ id, status, made_id, after })
    onChange?.(role, changeOutcome(status))
  })
}

/** A hook after the handler: writes the outcome. The change is made, so a failure here leaves it unknown, and the answer as it is. */
export async function ending({
  request,
  responseValue,
}: {
  readonly request: Request
  readonly responseValue: unknown
}): Promise<void> {
  const [status, answer] =
    responseValue instanceof ElysiaCustomStatusResponse
      ? [Number(responseValue.code), responseValue.response]
      : responseValue instanceof Response
        ? [responseValue.status, undefined]
        : [200, responseValue]
  await running
    .get(request)?.(status, answer)
    .catch(() => undefined)
}

/** Writes the outcome of a change that the handler has refused, or in which it has failed. */
export async function endRefused(request: Request, status: number): Promise<void> {
  await running
    .get(request)?.(status, null)
    .catch(() => undefined)
}

type Reader = (ledger: Operators["ledger"], id: string) => Promise<unknown>

/** Readers of resources in the form of their GET requests, by the first part of the path below `/admin`. */
const readers: Readonly<Record<string, Reader>> = {
  accounts: async (ledger, id) => shownBy(accountBody, await ledger.getAccount(id)),
  keys: async (ledger, id) => shownBy(keyBody, await ledger.getKey(id)),
  credits: async (ledger, id) => shownBy(creditBody, await ledger.getCredit(id)),
  budgets: async (ledger, id) => shownBy(budgetBody, await ledger.getBudget(id)),
  prices: async (ledger, id) => shownBy(customerPriceBody, await ledger.getCustomerPrice(id)),
  "price-lists": async (ledger, id) => shownBy(priceListBody, await ledger.getPriceList(id)),
  assignments: async (ledger, id) => shownBy(assignmentBody, await ledger.getAssignment(id)),
  sinks: async (ledger, id) =>
    shownBy(sinkBody, (await ledger.listSinks()).find((sink) => sink.id === id) ?? null),
  operators: async (ledger, id) => shownBy(operatorBody, await ledger.getOperator(id)),
}

const shownBy = <Row, Body>(bodyOf: (row: Row) => Body, row: Row | null) => row && bodyOf(row)

function limited(value: unknown): unknown {
  const characters = JSON.stringify(value)?.length ?? 0
  return characters > MAX_CHARACTERS ? { left_out_characters: characters } : value
}

/** Fields whose values are secret, or the name of an end user, which must be forgettable (D94). */
const HIDDEN_FIELDS = ["key", "token", "secret", "end_user"]
const SECRETS = /\b(tg_live_|tgo_|whsec_)[\w+/=-]+/g
const HIDDEN = "…"

/** A copy of a JSON value without secrets. */
function withoutSecrets(value: unknown, admin_token: string | null): unknown {
  if (typeof value === "string") return textWithout(value, admin_token)
  if (Array.isArray(value)) return value.map((one) => withoutSecrets(one, admin_token))
  if (typeof value !== "object" || value === null) return value
  const is_end_user = "selector" in value && value.selector === "end_user"
  const fields = Object.entries(value).map(([name, field]) => {
    if (typeof field !== "string") return [name, withoutSecrets(field, admin_token)]
    if (HIDDEN_FIELDS.includes(name) || (is_end_user && name === "selected" && !isId(field)))
      return [name, HIDDEN]
    if (name === "url") return [name, shownUrl(field)]
    return [name, withoutSecrets(field, admin_token)]
  })
  return Object.fromEntries(fields)
}

function textWithout(text: string, admin_token: string | null): string {
  const others = text.replaceAll(SECRETS, `$1${HIDDEN}`)
  return admin_token === null ? others : others.replaceAll(admin_token, HIDDEN)
}

/** The origin, because the path of a webhook's address can be its secret, and a hash that shows whether it changed. */
function shownUrl(url: string): string {
  const hash = new Bun.CryptoHasher("sha256").update(url).digest("hex").slice(0, 12)
  return `${URL.canParse(url) ? new URL(url).origin : ""}/${HIDDEN} (${hash})`
}
