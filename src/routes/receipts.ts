import { Elysia } from "elysia"
import { activeKey } from "../admission/admit.ts"
import { hashOf } from "../admission/key.ts"
import { GatewayError } from "../errors.ts"
import type { Gateway } from "../gateway.ts"
import { ledgerTime } from "../id.ts"
import { LedgerBusy, type Standing } from "../ledger/entries.ts"
import type { CallRecord } from "../ledger/reports/calls.ts"
import type { Holder } from "../ledger/reports/client.ts"
import { PAR_BP, printUsd } from "../money.ts"
import { messagesCredential } from "../operations/request-headers.ts"
import type { OwnAccount, Receipt } from "../wire/receipt.ts"
import { usageRange } from "../wire/usage-report.ts"
import * as reference from "./docs/receipts.ts"
import { accountBody, callBody, keyBody, usageReport } from "./record-bodies.ts"
import { forbidStoring, readQuery } from "./routing.ts"

/** `GET /v1/calls/{id}`, `/v1/account` and `/v1/usage`: what a key can read about its account (D47, D48). */
export function receipts(gateway: Gateway) {
  const { reports } = gateway
  return new Elysia({ name: "receipts" })
    .derive(async ({ request }) => ({ reader: await reader(gateway, request) }))
    .derive(readQuery)
    .onAfterHandle(forbidStoring)
    .get(
      "/v1/calls/:id",
      async ({ reader, params: { id } }) => {
        const call = await reports.call(reader.account_id, id)
        if (call !== null) return receipt(call, gateway.config.receipts.show_price_multiplier)
        const month = await reports.archived(id)
        if (month === null) throw new GatewayError("not_found", { message: "No call has this id." })
        throw new GatewayError("archived", {
          message: `The calls of ${month.slice(0, 7)} are archived. Ask the operator.`,
        })
      },
      reference.getReceipt,
    )
    .get(
      "/v1/account",
      async ({ reader }) => ownAccount(await reports.holder(reader)),
      reference.getOwnAccount,
    )
    .get(
      "/v1/usage",
      async ({ reader: { account_id }, query }) => {
        const range = usageRange(query, ledgerTime())
        return usageReport(range, await reports.usage(account_id, range).catch(tooManySums))
      },
      reference.getOwnUsage,
    )
}

/** Replaces the message of `overloaded`, because the request is a usage query and not a call. */
function tooManySums(error: unknown): never {
  if (!(error instanceof LedgerBusy)) throw error
  throw new GatewayError("overloaded", {
    message: "Too many usage queries are in progress. Retry in a few seconds.",
  })
}

/** The key that reads, checked before the parameters (D30). It may be suspended, but not revoked or expired (D47). */
function reader(gateway: Gateway, request: Request): Promise<Standing> {
  const key = messagesCredential(request.headers)
  return activeKey(gateway, hashOf(key), request.headers)
}

/** A receipt. Its prices and lines include the price multiplier, unless the operator shows that (D69). */
function receipt(record: CallRecord, show_price_multiplier: boolean): Receipt {
  const { amount_nano, charge_nano, price_multiplier_bp } = record
  const call = callBody(record, show_price_multiplier ? PAR_BP : (price_multiplier_bp ?? PAR_BP))
  const released_nano = charge_nano === null || charge_nano > amount_nano ? 0n : amount_nano - charge_nano
  return {
    id: call.id,
    key_id: call.key_id,
    model: call.model,
    operation: call.operation,
    stream: call.stream,
    session_id: call.session_id,
    agent_id: call.agent_id,
    state: call.state,
    basis: call.basis,
    ending: call.ending,
    failure: call.failure,
    notes: call.notes,
    held: call.held,
    charge: call.charge,
    released: charge_nano === null ? null : printUsd(released_nano),
    overage: call.overage,
    usage: call.usage,
    ...(show_price_multiplier && { price_multiplier: call.price_multiplier }),
    estimate: call.estimate,
    unread: call.unread,
    unexplained_tokens: call.unexplained_tokens,
    prices: call.prices,
    lines: call.lines,
    held_at: call.started_at,
    ttft_ms: call.ttft_ms,
    duration_ms: call.duration_ms,
    settled_at: call.settled_at,
  }
}

function ownAccount(holder: Holder): OwnAccount {
  const { id, name, balance, held, available, suspended } = accountBody(holder.account)
  const key = keyBody(holder.key)
  return {
    id,
    name,
    balance,
    held,
    available,
    suspended,
    key: {
      id: key.id,
      name: key.name,
      prefix: key.prefix,
      models: key.models,
      expires_at: key.expires_at,
      suspended: key.suspended,
      spending_limit: key.spending_limit,
      spent: key.spent,
    },
  }
}
