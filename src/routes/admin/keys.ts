import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { hashOf, makeKey, prefixOf } from "../../admission/key.ts"
import { CreatedKeyBody, checkExpiry, KeyBody, KeyChange, NewKey } from "../../wire/admin.ts"
import { PageQuery, pageOf } from "../../wire/admin-query.ts"
import { invalidRequest, takenId } from "../../wire/fault.ts"
import { checkLabels } from "../../wire/labels.ts"
import { pathId } from "../../wire/parameter.ts"
import { KEEP_HOURS, Rotation } from "../../wire/sinks.ts"
import { createdKeyBody, keyBody, pageBody } from "../record-bodies.ts"
import { accepted, answer, errorOf, found, notFound, page, shown } from "../reference/operation.ts"
import { NO_ACCOUNT, NO_KEY, ofAccounts, ofOne } from "../reference/routes.ts"
import type { Operators } from "./operators.ts"

/** `/admin/accounts/{id}/keys` and `/admin/keys/{id}`: the API keys of an account (D26). */
export function keyRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-keys" })
    .post(
      "/accounts/:id/keys",
      async ({ params, body, status }) => {
        const { secret, order } = newKeyOf(body)
        const made = accepted(await ledger.createKey({ ...order, account_id: params.id }), {
          no_account: NO_ACCOUNT,
          conflict: () => takenId("key"),
        })
        return made.outcome === "created"
          ? status(201, createdKeyBody(made.key, secret))
          : status(200, keyBody(made.key))
      },
      ofOne("account", {
        body: shown(NewKey, {
          plain: {},
          limited: {
            name: "production",
            models: ["gpt-5-mini"],
            expires_at: "2027-12-31T23:59:59Z",
            spending_limit: { amount: "25", per: "day" },
            group: "acme/search",
          },
          labelled: { labels: { team: "search" }, required_tags: ["feature"] },
        }),
        response: {
          200: answer("A key with this id already exists. Nothing was changed.", KeyBody),
          201: answer("The key. Store it: it is not shown again.", CreatedKeyBody, {
            plain,
            limited: { expires_at: "2027-12-31T23:59:59.000Z" },
            labelled: { ...plain, labels: { team: "search" }, required_tags: ["feature"] },
          }),
        },
        operationId: "createKey",
        summary: "Create a key",
        description:
          "Only this response shows the key itself: the database stores its SHA-256 hash and its first characters. Without `models` the key can use all models; without `expires_at` it is valid until it is revoked. Send your own `id` to make the request safe to retry: a repeat returns 200 without the key itself.",
        invalid: "models",
      }),
    )
    .get(
      "/accounts/:id/keys",
      async ({ params, query }) =>
        pageBody(found(await ledger.listKeys(params.id, pageOf(query)), NO_ACCOUNT), keyBody),
      ofOne("account", {
        query: PageQuery,
        response: { 200: page("keys", KeyBody) },
        operationId: "listKeys",
        summary: "List an account's keys",
        description:
          "Lists keys, newest first, including revoked and expired ones. The keys themselves are not shown.",
      }),
    )
    .patch(
      "/keys/:id",
      async ({ params: { id }, body }) => {
        const { spending_limit, client_tags: _, group, ...change } = body
        checkExpiry(change.expires_at, Date.now())
        const key = await ledger.changeKey(id, {
          ...change,
          ...(spending_limit !== undefined && { spending: spending_limit }),
          ...(group !== undefined && { group_path: group }),
          ...tagRulesIn(body),
        })
        return keyBody(found(key, NO_KEY))
      },
      ofOne("key", {
        body: shown(KeyChange, {
          limit: { spending_limit: { amount: "25", per: "day" } },
          label: { labels: { team: "search" }, client_tags: "ignored" },
          suspend: { suspended: true },
          open: { models: null, expires_at: null, spending_limit: null },
        }),
        response: {
          200: answer("The changed key.", KeyBody, {
            limited: {},
            labelled: { labels: { team: "search" }, client_tags: "ignored" },
            suspended: { suspended: true },
            open: { models: null, spending_limit: null, spent: null },
          }),
        },
        operationId: "changeKey",
        summary: "Update a key",
        description:
          "Fields that you leave out stay unchanged; `null` removes a name, a list of models, an expiry or a limit. The change applies to every call that arrives after this response; calls in progress continue. A spending limit counts what the key's open calls hold and what its settled calls cost in the current day or month (UTC). A call that exceeds it gets a 402. A new limit also counts earlier calls of the current period.",
        invalid: "suspended",
      }),
    )
    .post(
      "/keys/:id/rotate",
      async ({ params: { id }, body: { keep_hours } }) => {
        const { secret, ...change } = newSecretOf(id, keep_hours)
        const refusals = { rotating: stillRotating, no_key: NO_WORKING_KEY }
        return createdKeyBody(accepted(await ledger.rotateKey(change), refusals).key, secret)
      },
      ofAccounts({
        params: pathId("The key's id."),
        body: ROTATIONS,
        response: { 200: answer(NEW_SECRET, CreatedKeyBody, rotated) },
        operationId: "rotateKey",
        summary: "Rotate a key",
        description: `Gives the key a new secret. ${ROTATION_EFFECT}`,
        invalid: "keep_hours",
        errors: [NO_WORKING_KEY],
      }),
    )
    .delete(
      "/keys/:id",
      async ({ params: { id }, status }) => {
        if (!(await ledger.revokeKey(id))) throw errorOf(NO_KEY)
        return status(204, undefined)
      },
      ofOne("key", {
        response: { 204: answer("The key is revoked.", Type.Void()) },
        operationId: "revokeKey",
        summary: "Revoke a key",
        description:
          "Every request that arrives after this response gets a 401. Calls in progress continue. Revoking a revoked key changes nothing.",
      }),
    )
}

/** The requested key, for the ledger, and its new secret. Throws for an invalid expiry or invalid labels. */
export function newKeyOf(body: Static<typeof NewKey>) {
  const { id, name = null, models = null, expires_at = null, spending_limit = null, group = null } = body
  checkExpiry(expires_at, Date.now())
  const secret = makeKey()
  const limits = { models, expires_at, spending: spending_limit, ...tagRulesIn(body), group_path: group }
  return { secret, order: { id, name, ...limits, hash: hashOf(secret), prefix: prefixOf(secret) } }
}

/** A new secret for a key, and the ledger's order to replace the one before it. */
export function newSecretOf(id: string, keep_hours = KEEP_HOURS) {
  const secret = makeKey()
  return { secret, id, keep_hours, hash: hashOf(secret), prefix: prefixOf(secret) }
}

/** The fields about tags (D94) in the ledger's form; an absent one stays absent. */
function tagRulesIn({ labels, required_tags, client_tags }: Pick<Static<typeof KeyChange>, TagField>) {
  if (labels) checkLabels(labels)
  return {
    ...(labels !== undefined && { labels }),
    ...(required_tags !== undefined && { required_tags }),
    ...(client_tags !== undefined && { ignores_client_tags: client_tags === "ignored" }),
  }
}

type TagField = "labels" | "required_tags" | "client_tags"

export const stillRotating = () =>
  invalidRequest(
    "The secret before the last rotation still works. Wait until previous_until, or rotate with keep_hours 0, which ends both secrets.",
    "keep_hours",
  )

export const ROTATIONS = shown(Rotation, {
  "A day for both": {},
  "The old one ends immediately": { keep_hours: 0 },
})
export const ROTATION_EFFECT =
  "The id, the limits, the budgets and the usage of the key stay. The secret before works for `keep_hours` more. While an earlier secret still works, only a rotation with `keep_hours` 0 is possible, which ends both."
export const NEW_SECRET = "The key with its new secret. Store it: it is not shown again."
export const rotated = {
  "Both work": { previous_until: "2026-11-22T09:30:00.000Z" },
  "The old one has ended": {},
}

const plain = { name: null, models: null, spending_limit: null, group: null }

const NO_WORKING_KEY = notFound("No key has this id, or it is revoked.")
