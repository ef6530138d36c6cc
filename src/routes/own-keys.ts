import { Type } from "@sinclair/typebox"
import { checkSuspension } from "../admission/accept.ts"
import { LoadRate } from "../admission/key-loads.ts"
import { GatewayError } from "../errors.ts"
import { MAX_OWN_KEYS, type OwnKeyResult } from "../ledger/accounts/keys.ts"
import { LedgerBusy, type Standing } from "../ledger/entries.ts"
import type { Gateway } from "../service/gateway.ts"
import { CreatedKeyBody, KeyBody, NewKey } from "../wire/admin.ts"
import { PageQuery, pageOf } from "../wire/admin-query.ts"
import { invalidRequest, takenId } from "../wire/fault.ts"
import { pathId } from "../wire/parameter.ts"
import { begin, ending, keepBody } from "./admin/change-log.ts"
import {
  NEW_SECRET,
  newKeyOf,
  newSecretOf,
  ROTATION_EFFECT,
  ROTATIONS,
  rotated,
  stillRotating,
} from "./admin/keys.ts"
import type { Operators } from "./admin/operators.ts"
import { readerOf, readerRoutes } from "./receipts.ts"
import { createdKeyBody, keyBody, pageBody } from "./record-bodies.ts"
import { accepted, answer, errorOf, notFound, page, shown } from "./reference/operation.ts"
import { ofHolders } from "./reference/routes.ts"
import { jsonBody } from "./request-body.ts"

const BODY_BYTES = 65_536
/** Maximum number of changes that wait for the ledger at the same time, so that holders do not slow operators. */
const MAX_WAITING = 4
/** Bounded, because each change is an entry of the log, which may have 64 KiB. */
const MAX_PER_MINUTE = 60

interface Asked {
  readonly request: Request
  readonly route: string
  readonly params?: { readonly id?: string }
  readonly reader: Standing
}

/** `/v1/keys`: the keys of the account, for the holder of one of them (D104). */
export function ownKeys(gateway: Gateway, operators: Operators) {
  const { ledger, admin_token } = operators
  const changing = new Set<string>()
  const rates = new LoadRate()

  /** Throws, before the change is recorded, if the account may change no keys. */
  const checkChange = async (holder: Standing) => {
    checkSuspension(holder)
    const account = await ledger.getAccount(holder.account_id)
    if (account?.may_manage_keys !== true) throw errorOf(REFUSALS.not_allowed)
  }
  /** Runs one change of an account at a time, because others would only wait for its lock. */
  const inTurn = async (
    { request, route, params: { id } = {}, reader }: Asked,
    change: () => Promise<OwnKeyResult>,
  ) => {
    const { account_id, key_id } = reader
    const wait_ms = rates.wait(account_id, MAX_PER_MINUTE, performance.now())
    if (wait_ms > 0) throw tooManyChanges(wait_ms)
    if (changing.has(account_id) || changing.size === MAX_WAITING) throw new LedgerBusy()
    changing.add(account_id)
    // A change that is not allowed counts too, because it takes one of the few slots.
    rates.note(account_id, MAX_PER_MINUTE, performance.now())
    try {
      await checkChange(reader)
      const actor = { actor: `key:${key_id}`, role: "holder", operator_id: null } as const
      await begin(operators, request, { ...actor, route, resource_id: id ?? account_id })
      return accepted(await change(), REFUSALS)
    } finally {
      changing.delete(account_id)
    }
  }

  return readerRoutes(gateway, "own-keys")
    .onParse(async ({ request, params: { id } = {} }) => {
      const { account_id } = await readerOf(gateway, request)
      const { limits } = gateway.config
      const memory = gateway.memory.of(account_id, limits)
      try {
        const body_bytes = Math.min(BODY_BYTES, limits.body_bytes)
        const body = await jsonBody(request, id, { ...limits, body_bytes }, memory)
        keepBody(request, body, admin_token)
        return body
      } finally {
        memory.free()
      }
    })
    .onAfterHandle(ending)
    .get(
      "/v1/keys",
      async ({ reader, query }) => pageBody(await gateway.reports.keys(reader, pageOf(query)), keyBody),
      ofHolders({
        query: PageQuery,
        response: { 200: page("keys", KeyBody) },
        operationId: "listOwnKeys",
        summary: "List the keys of the account",
        description:
          "Lists the keys of the account, newest first, including revoked and expired ones: their names, first characters, states and last use. The keys themselves are not shown. Any key of the account can read the list.",
      }),
    )
    .post(
      "/v1/keys",
      async (asked) => {
        const { reader, body, status } = asked
        const { secret, order } = newKeyOf(body)
        const made = await inTurn(asked, () => ledger.makeOwnKey(reader, order))
        return made.outcome === "known"
          ? status(200, keyBody(made.key))
          : status(201, createdKeyBody(made.key, secret))
      },
      ofHolders({
        body: shown(NewKey, {
          plain: {},
          limited: { name: "production", spending_limit: { amount: "25", per: "day" } },
        }),
        response: {
          200: answer("A key with this id already exists. Nothing was changed.", KeyBody),
          201: answer("The key. Store it: it is not shown again.", CreatedKeyBody, {
            plain: { name: null, spending_limit: null },
            limited: {},
          }),
        },
        operationId: "makeOwnKey",
        summary: "Make a key of the account",
        description:
          "Makes a key, if the operator allows it for the account. It has the models, expiry, group, labels and rules for tags of the key that makes it; fields of the request can only narrow them. A key with a spending limit or a budget of its own cannot make others. Send your own `id` to make the request safe to retry: a repeat returns 200 without the key itself.",
        invalid: "models",
        errors: CHANGE_ERRORS,
      }),
    )
    .post(
      "/v1/keys/:id/rotate",
      async (asked) => {
        const { reader, params, body } = asked
        const { secret, ...change } = newSecretOf(params.id, body.keep_hours)
        const { key } = await inTurn(asked, () => ledger.rotateOwnKey(reader, change))
        return createdKeyBody(key, secret)
      },
      ofHolders({
        params: pathId("The key's id."),
        body: ROTATIONS,
        response: { 200: answer(NEW_SECRET, CreatedKeyBody, rotated) },
        operationId: "rotateOwnKey",
        summary: "Rotate a key of the account",
        description: `Gives the key a new secret, if the operator allows it for the account. ${ROTATION_EFFECT} A key can rotate itself, and every key with no more rights than its own.`,
        invalid: "keep_hours",
        errors: [...CHANGE_ERRORS, NO_OWN_KEY],
      }),
    )
    .delete(
      "/v1/keys/:id",
      async (asked) => {
        const { reader, params, status } = asked
        await inTurn(asked, () => ledger.revokeOwnKey(reader, params.id))
        return status(204, undefined)
      },
      ofHolders({
        params: pathId("The key's id."),
        response: { 204: answer("The key is revoked.", Type.Void()) },
        operationId: "revokeOwnKey",
        summary: "Revoke a key of the account",
        description:
          "Every request that arrives after this response gets a 401, if the operator allows holders to revoke keys. A key can revoke itself, and every key with no more rights than its own, but not the last active one. Revoking a revoked key changes nothing.",
        errors: [...CHANGE_ERRORS, NO_OWN_KEY],
      }),
    )
}

const NO_OWN_KEY = notFound("No key of your account that works has this id.")
const notAllowed = (message: string) => ({ code: "key_change_not_allowed", message }) as const

const REFUSALS = {
  invalid_api_key: "invalid_api_key",
  key_suspended: "key_suspended",
  account_suspended: "account_suspended",
  not_allowed: notAllowed("The operator does not let this account manage its keys. Ask the operator."),
  limited: notAllowed(
    "This key has a spending limit or a budget of its own, so it can only rotate or revoke itself. Use another key of the account.",
  ),
  more_rights: notAllowed(
    "The other key may do what this one may not: other models, a later expiry, another group or other labels. Use another key of the account.",
  ),
  last_key: notAllowed(
    "No other key of the account works. Rotate this one, with keep_hours 0, or make another one first.",
  ),
  no_key: NO_OWN_KEY,
  conflict: () => takenId("key"),
  rotating: stillRotating,
  too_many: () =>
    invalidRequest(
      `The account has ${MAX_OWN_KEYS} keys that work or were made in the last day. Revoke some, wait, or ask the operator.`,
    ),
} as const

function tooManyChanges(wait_ms: number): GatewayError {
  return new GatewayError("rate_limited", {
    message: `The keys of an account can be changed ${MAX_PER_MINUTE} times in a minute. Wait for the time in the retry-after header, then retry.`,
    headers: { "retry-after": String(Math.ceil(wait_ms / 1_000)) },
  })
}

const CHANGE_ERRORS = [REFUSALS.not_allowed, "key_suspended", "account_suspended"] as const
