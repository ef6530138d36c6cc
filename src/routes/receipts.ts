import { Elysia } from "elysia"
import { activeKey } from "../admission/admit.ts"
import { endUserNames } from "../admission/end-user.ts"
import { hashOf } from "../admission/key.ts"
import { GatewayError } from "../errors.ts"
import { ledgerTime } from "../id.ts"
import { LedgerBusy, type Standing } from "../ledger/entries.ts"
import type { CallRecord } from "../ledger/reports/calls.ts"
import type { Holder } from "../ledger/reports/client.ts"
import { PAR_BP } from "../money.ts"
import { messagesCredential } from "../operations/request-headers.ts"
import type { Gateway } from "../service/gateway.ts"
import { mapInTurns } from "../turns.ts"
import { OwnCallsQuery, pageOf } from "../wire/admin-query.ts"
import { pathId, query as queryOf } from "../wire/parameter.ts"
import { OwnAccount, Receipt } from "../wire/receipt.ts"
import { bodyOf } from "../wire/record.ts"
import { UsageQuery, UsageReport, usageRange } from "../wire/usage-report.ts"
import { inFormat, rowsFor } from "./list-formats.ts"
import { accountBody, callBody, keyBody, ownBudget, pageBody, usageReport } from "./record-bodies.ts"
import { exampleOf } from "./reference/example.ts"
import { answer, type ErrorExample, errorOf, page } from "./reference/operation.ts"
import { NO_CALL, ofHolders } from "./reference/routes.ts"
import { forbidStoring, readQuery } from "./routing.ts"

const readers = new WeakMap<Request, Promise<Standing>>()

/** The key of a request, read once for all hooks. */
export function readerOf(gateway: Gateway, request: Request): Promise<Standing> {
  const known = readers.get(request)
  if (known !== undefined) return known
  const found = activeKey(gateway, hashOf(messagesCredential(request.headers)), request)
  readers.set(request, found)
  return found
}

/** Routes of a key's account. The key, which may be suspended (D47), is checked before parameters (D30). */
export function readerRoutes(gateway: Gateway, name: string) {
  return new Elysia({ name })
    .derive(async ({ request }) => ({ reader: await readerOf(gateway, request) }))
    .derive(readQuery)
    .onAfterHandle(forbidStoring)
    .onAfterHandle(async ({ request, responseValue, reader: { account_id } }) =>
      inFormat(request, responseValue, () => gateway.memory.made(account_id, gateway.config.limits)),
    )
}

/** `GET /v1/calls/{id}`, `/v1/calls`, `/v1/account` and `/v1/usage`: what a key can read about its account (D47, D48). */
export function receipts(gateway: Gateway) {
  const { reports } = gateway
  return readerRoutes(gateway, "receipts")
    .get(
      "/v1/calls",
      async ({ reader: { account_id }, query }) => {
        const { key, tag, end_user, ...filter } = query
        const end_users = end_user === undefined ? undefined : endUserNames(end_user)
        const calls = { ...filter, key_id: key, tags: tag, end_users }
        const calls_page = await reports.calls(account_id, calls, pageOf(query)).catch(tooManySums)
        const { show_price_multiplier } = gateway.config.receipts
        return pageBody(calls_page, (call) => receipt(call, show_price_multiplier))
      },
      ofHolders({
        query: OwnCallsQuery,
        response: { 200: page("receipts", Receipt) },
        operationId: "listReceipts",
        summary: "List the calls of the account",
        description: `Lists the receipts of the account's calls, newest first. Filters are combined with AND. One page scans at most 100,000 calls, so a
filter that matches few calls can return fewer than \`limit\`, or none, and still have a \`next\`.

${whose}`,
        invalid: "state",
        errors: [BUSY_REPORTS],
      }),
    )
    .get(
      "/v1/calls/:id",
      async ({ reader, params: { id } }) => {
        const call = await reports.call(reader.account_id, id)
        if (call !== null) {
          const own = receipt(call, gateway.config.receipts.show_price_multiplier)
          return bodyOf(Receipt, { ...own, refunded_nano: await reports.refunded(reader.account_id, id) })
        }
        const month = await reports.archived(reader.account_id, id)
        if (month === null) throw errorOf(NO_CALL)
        throw new GatewayError("archived", {
          message: `The calls of ${month.slice(0, 7)} are archived. Ask the operator.`,
        })
      },
      ofHolders({
        params: pathId("The call's id: the `x-request-id` of its response."),
        query: queryOf({}),
        response: {
          200: answer("The receipt. While the call is open, it shows the hold and no charge.", Receipt, {
            Settled: { refunded: "0" },
            Open: { refunded: "0", ...open },
            "The client disconnected": { refunded: "0", ...left },
          }),
        },
        operationId: "getReceipt",
        summary: "Get the receipt of a call",
        description: `Shows what a call held, what it was charged, on what basis and at which prices, and what was released. The response is a 404 if the
call does not exist, belongs to another account, or held nothing, such as a refused request.

${whose}`,
        errors: [
          NO_CALL,
          { code: "archived", message: "The calls of 2020-01 are archived. Ask the operator." },
        ],
      }),
    )
    .get(
      "/v1/account",
      async ({ reader }) => ownAccount(await reports.holder(reader)),
      ofHolders({
        query: queryOf({}),
        response: {
          200: answer("The account and the key.", OwnAccount, { account: { grants: [] } }),
        },

        operationId: "getOwnAccount",
        summary: "Get the balance",
        description: `Shows the account that pays for the key's calls, the limits of the key, and the budgets that its calls count in. \`available\` is what new calls can hold: the
balance plus the credit limit, minus what open calls hold. \`grants\` are the credits that are left, and when they expire.

${whose}`,
      }),
    )
    .get(
      "/v1/usage",
      async ({ request, reader: { account_id }, query }) => {
        const range = usageRange(query, ledgerTime())
        const rows = rowsFor(request, () => gateway.memory.made(account_id, gateway.config.limits))
        return usageReport(range, rows, (most, take) => reports.usage(account_id, range, most, take)).catch(
          tooManySums,
        )
      },
      ofHolders({
        query: UsageQuery,
        response: {
          200: answer("The usage.", UsageReport, {
            "By day": { data: [exampleOf(usage, { group: "2026-11-21", name: null })] },
            "By model": { by: "model", data: [exampleOf(usage, { group: "gpt-5-mini", name: null })] },
          }),
        },
        operationId: "getOwnUsage",
        summary: "Get the usage of the account",
        description: `Shows what the account's calls in a time range used and cost: by model, operation, key, session or day, and in total. A call counts at the time it
ended. A correction counts at the time it was made, with the difference from the earlier charge, which can be negative. Adjacent ranges
therefore never overlap or leave a gap, and past ranges do not change.

${whose}`,
        invalid: "from",
        errors: [BUSY_REPORTS],
      }),
    )
}

/** Replaces the message of `overloaded`, because the request is a usage query and not a call. */
export function tooManySums(error: unknown): never {
  throw error instanceof LedgerBusy ? errorOf(BUSY_REPORTS) : error
}

/** A receipt. Its prices and lines include the price multiplier, unless the operator shows the multiplier (D69). */
function receipt(record: CallRecord, show_price_multiplier: boolean): Receipt {
  const { amount_nano, charge_nano, price_multiplier_bp } = record
  const shown_bp = show_price_multiplier ? PAR_BP : (price_multiplier_bp ?? PAR_BP)
  const { price_multiplier, ...call } = callBody(record, shown_bp)
  const released_nano = charge_nano === null || charge_nano > amount_nano ? 0n : amount_nano - charge_nano
  return bodyOf(Receipt, {
    ...call,
    ...(show_price_multiplier && { price_multiplier }),
    released_nano: charge_nano === null ? null : released_nano,
    held_at: call.started_at,
  })
}

/** An account may have thousands of grants. */
async function ownAccount({ account, key, budgets, grants }: Holder): Promise<OwnAccount> {
  const effective = grants.filter(({ starts_at }) => starts_at === null)
  const own = { ...accountBody(account), key: bodyOf(OwnAccount.properties.key, keyBody(key)) }
  return {
    ...bodyOf(OwnAccount, { ...own, grants: [], budgets: [] }),
    grants: await mapInTurns(effective, ({ left_nano, expires_at }) =>
      bodyOf(OwnAccount.properties.grants.items, { remaining_nano: left_nano, expires_at }),
    ),
    budgets: await mapInTurns(budgets, ownBudget),
  }
}

export const BUSY_REPORTS = {
  code: "overloaded",
  message: "Too many usage queries are in progress. Retry in a few seconds.",
} as const satisfies ErrorExample

const whose = `Any key of the account that is not revoked or expired can read it. Suspended keys and keys of suspended accounts can read it
too. Send the key as a bearer token or as \`x-api-key\`.`

const usage = UsageReport.properties.data.items

const open = {
  state: "open",
  basis: "none",
  ending: null,
  charge: null,
  released: null,
  overage: null,
  usage: null,
  lines: [],
  ttft_ms: null,
  duration_ms: null,
  settled_at: null,
} satisfies Partial<Receipt>

const left = {
  basis: "estimate",
  ending: "client_left",
  failure: "client_left",
  charge: "0.0001525",
  released: "0.0162525",
  usage: { prompt_tokens: 10, cached_tokens: 0, completion_tokens: 75 },
  estimate: { output_bytes: 300, prompt_bytes: 40, bytes_per_token: 4 },
  lines: [
    { kind: "input", count: 10, price: "0.25", cost: "0.0000025" },
    { kind: "output", count: 75, price: "2", cost: "0.00015" },
  ],
} satisfies Partial<Receipt>
