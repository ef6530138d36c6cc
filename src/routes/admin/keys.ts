import { Elysia } from "elysia"
import { hashOf, makeKey, prefixOf } from "../../admission/key.ts"
import { GatewayError } from "../../errors.ts"
import { createKey, type Key, listKeys, revokeKey } from "../../ledger/keys.ts"
import { CreatedKeyBody, KeyBody, listOf, NewKey, parseNewKey } from "../../wire/admin.ts"
import { parsePage } from "../../wire/admin-query.ts"
import { printTime } from "../../wire/time.ts"
import { operation } from "../openapi.ts"
import { existingAccount, noAccount } from "./accounts.ts"
import { ask } from "./books.ts"
import { answer, jsonBody, type Operators, pathId, queryOf } from "./operators.ts"
import { BODY_ERRORS, ERRORS, idParameter, keyExample, pageParameters } from "./reference.ts"

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
        const made = { account_id, ...asked, hash: hashOf(key), prefix: prefixOf(key) }
        const created = await ask(operators, createKey(database, made))
        if (created === null) throw noAccount()
        return answer(createdKeyBody(created, key), 201)
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
    .delete(
      "/keys/:id",
      async ({ params }) => {
        const known = await ask(operators, revokeKey(database, pathId(params.id)))
        if (!known) throw new GatewayError("not_found", { message: "There is no key of this id." })
        return new Response(null, { status: 204 })
      },
      { parse: "none", detail: revoking },
    )
}

/** The one answer that shows the key itself. */
function createdKeyBody(created: Key, key: string): CreatedKeyBody {
  const { id, name, prefix, models, expires_at, created_at } = created
  return {
    id,
    name,
    key,
    prefix,
    models,
    expires_at: expires_at && printTime(expires_at),
    created_at: printTime(created_at),
  }
}

function keyBody({ id, name, prefix, models, ...key }: Key): KeyBody {
  return {
    id,
    name,
    prefix,
    models,
    expires_at: key.expires_at && printTime(key.expires_at),
    created_at: printTime(key.created_at),
    revoked_at: key.revoked_at && printTime(key.revoked_at),
    last_used_at: key.last_used_at && printTime(key.last_used_at),
  }
}

const creating = operation({
  operationId: "createKey",
  tag: "Accounts",
  summary: "Make a key",
  description:
    "The answer is the only one that shows the key itself: the books keep its SHA-256 and its first characters. Without `models` the key may use every model, without `expires_at` it lasts until it is revoked.",
  credentials: ["adminToken"],
  parameters: [idParameter("The account's id.")],
  body: {
    schema: NewKey,
    examples: {
      plain: {},
      limited: { name: "production", models: ["gpt-5-mini"], expires_at: "2027-12-31T23:59:59Z" },
    },
  },
  answers: {
    201: {
      description: "The key; keep it, it is not shown again.",
      json: {
        schema: CreatedKeyBody,
        examples: { key: { ...keyExample, key: "tg_live_8Fq2…" } },
      },
    },
  },
  errors: [...BODY_ERRORS, "not_found", ...ERRORS],
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
        examples: { keys: { data: [{ ...keyExample, revoked_at: null, last_used_at: null }], next: null } },
      },
    },
  },
  errors: ["invalid_request", "not_found", ...ERRORS],
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
  errors: ["not_found", ...ERRORS],
})
