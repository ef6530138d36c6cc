import { Elysia } from "elysia"
import { hashOf, makeKey, prefixOf } from "../../admission/key.ts"
import { GatewayError } from "../../errors.ts"
import { nextId } from "../../id.ts"
import {
  changeKey,
  createKey,
  type Key,
  type KeyResult,
  listKeys,
  revokeKey,
} from "../../ledger/accounts/keys.ts"
import { printUsd } from "../../money.ts"
import {
  CreatedKeyBody,
  KeyBody,
  KeyChange,
  listOf,
  NewKey,
  parseKeyChange,
  parseNewKey,
} from "../../wire/admin.ts"
import { parsePage } from "../../wire/admin-query.ts"
import { printTime } from "../../wire/time.ts"
import { operation } from "../openapi.ts"
import { existingAccount, noAccount } from "./accounts.ts"
import { ask, askLong } from "./books.ts"
import { answer, jsonBody, type Operators, pathId, queryOf } from "./operators.ts"
import {
  BODY_ERRORS,
  ERRORS,
  fieldFault,
  idParameter,
  keyExample,
  NO_ACCOUNT,
  NO_KEY,
  PAGE_FAULT,
  pageParameters,
  unknownOutcome,
} from "./reference.ts"

/** `/admin/accounts/{id}/keys` and `/admin/keys/{id}`: what may spend an account's money (D26). */
export function keyRoutes(operators: Operators) {
  const { database } = operators
  return new Elysia({ name: "admin-keys" })
    .post(
      "/accounts/:id/keys",
      async ({ request, params }) => {
        const account_id = pathId(params.id)
        const asked = parseNewKey(await jsonBody(request, operators), Date.now())
        const key = makeKey()
        const id = asked.id ?? nextId()
        const made = { ...asked, id, account_id, hash: hashOf(key), prefix: prefixOf(key) }
        return created(await ask(operators, createKey(database, made), { id }), key)
      },
      { parse: "none", detail: creating },
    )
    .get(
      "/accounts/:id/keys",
      async ({ request, params }) => {
        const account_id = pathId(params.id)
        const page = parsePage(queryOf(request))
        await existingAccount(operators, account_id)
        const { data, next } = await ask(operators, listKeys(database, account_id, page))
        return answer({ data: data.map(keyBody), next })
      },
      { detail: listing },
    )
    .patch(
      "/keys/:id",
      async ({ request, params }) => {
        const id = pathId(params.id)
        const change = parseKeyChange(await jsonBody(request, operators), Date.now())
        const key = await askLong(operators, changeKey(database, id, change))
        if (key === null) throw noKey()
        return answer(keyBody(key))
      },
      { parse: "none", detail: changing },
    )
    .delete(
      "/keys/:id",
      async ({ params }) => {
        const known = await ask(operators, revokeKey(database, pathId(params.id)))
        if (!known) throw noKey()
        return new Response(null, { status: 204 })
      },
      { parse: "none", detail: revoking },
    )
}

function noKey(): GatewayError {
  return new GatewayError("not_found", { message: "There is no key of this id." })
}

function created(result: KeyResult, key: string): Response {
  switch (result.outcome) {
    case "created":
      return answer(createdKeyBody(result.key, key), 201)
    case "known":
      return answer(keyBody(result.key))
    case "no_account":
      throw noAccount()
    case "conflict":
      throw new GatewayError("invalid_request", {
        message: "This id belongs to a key of another account; nothing was changed.",
        param: "id",
      })
  }
}

/** The one answer that shows the key itself. */
function createdKeyBody(made: Key, key: string): CreatedKeyBody {
  return { ...commonOf(made), key }
}

function commonOf({ id, name, prefix, models, expires_at, suspended_at, spending, created_at }: Key) {
  return {
    id,
    name,
    prefix,
    models,
    expires_at: expires_at && printTime(expires_at),
    suspended: suspended_at !== null,
    spending_limit: spending && { amount: printUsd(spending.limit_nano), per: spending.period },
    created_at: printTime(created_at),
  }
}

/** A key as its operator is shown it, and its holder. */
export function keyBody(key: Key): KeyBody {
  return {
    ...commonOf(key),
    spent: key.spending && printUsd(key.spending.spent_nano),
    revoked_at: key.revoked_at && printTime(key.revoked_at),
    last_used_at: key.last_used_at && printTime(key.last_used_at),
  }
}

const keyListed: KeyBody = { ...keyExample, spent: "3.2", revoked_at: null, last_used_at: null }

const creating = operation({
  operationId: "createKey",
  tag: "Accounts",
  summary: "Make a key",
  description:
    "The answer is the only one that shows the key itself: the books keep its SHA-256 and its first characters. Without `models` the key may use every model, without `expires_at` it lasts until it is revoked. With an `id` of your own the request may be repeated: the second answer is a 200 that does not show the key again.",
  credentials: ["adminToken"],
  parameters: [idParameter("The account's id.")],
  body: {
    schema: NewKey,
    examples: {
      plain: {},
      limited: {
        name: "production",
        models: ["gpt-5-mini"],
        expires_at: "2027-12-31T23:59:59Z",
        spending_limit: { amount: "25", per: "day" },
      },
    },
  },
  answers: {
    200: {
      description: "The key of this id, which stood there before; nothing was changed.",
      json: { schema: KeyBody, examples: { key: keyListed } },
    },
    201: {
      description: "The key; keep it, it is not shown again.",
      json: {
        schema: CreatedKeyBody,
        examples: {
          plain: { ...keyExample, name: null, models: null, spending_limit: null, key: "tg_live_8Fq2…" },
          limited: { ...keyExample, expires_at: "2027-12-31T23:59:59.000Z", key: "tg_live_8Fq2…" },
        },
      },
    },
  },
  errors: [
    ...BODY_ERRORS,
    fieldFault("models", "an array of 1 to 256 model names"),
    NO_ACCOUNT,
    ...ERRORS,
    unknownOutcome(keyExample.id),
  ],
})

const listing = operation({
  operationId: "listKeys",
  tag: "Accounts",
  summary: "List an account's keys",
  description: "Keys without the key itself, newest first, the revoked and expired ones too.",
  credentials: ["adminToken"],
  parameters: [idParameter("The account's id."), ...pageParameters],
  answers: {
    200: {
      description: "A page of keys.",
      json: {
        schema: listOf(KeyBody),
        examples: { keys: { data: [keyListed], next: null } },
      },
    },
  },
  errors: [PAGE_FAULT, NO_ACCOUNT, ...ERRORS],
})

const changing = operation({
  operationId: "changeKey",
  tag: "Accounts",
  summary: "Change, limit or suspend a key",
  description:
    "What is left out stays; `null` takes a name, a list of models, an expiry or a limit away. It holds for every call that arrives after this answer; calls that were admitted before go on. A spending limit counts what the key's calls of the day or month, in UTC, hold until they are settled, and what they cost then; a call that does not fit is refused with 402. Setting a limit counts the calls of its period that were made before, too.",
  credentials: ["adminToken"],
  parameters: [idParameter("The key's id.")],
  body: {
    schema: KeyChange,
    examples: {
      limit: { spending_limit: { amount: "25", per: "day" } },
      suspend: { suspended: true },
      open: { models: null, expires_at: null, spending_limit: null },
    },
  },
  answers: {
    200: {
      description: "The key as it is now.",
      json: {
        schema: KeyBody,
        examples: {
          limited: keyListed,
          suspended: { ...keyListed, suspended: true },
          open: { ...keyListed, models: null, spending_limit: null, spent: null },
        },
      },
    },
  },
  errors: [...BODY_ERRORS, fieldFault("suspended", "true or false"), NO_KEY, ...ERRORS],
})

const revoking = operation({
  operationId: "revokeKey",
  tag: "Accounts",
  summary: "Revoke a key",
  description:
    "Every request that arrives after this answer is refused with 401. Calls that were admitted before go on. Revoking again changes nothing.",
  credentials: ["adminToken"],
  parameters: [idParameter("The key's id.")],
  answers: { 204: { description: "The key is revoked." } },
  errors: [NO_KEY, ...ERRORS],
})
