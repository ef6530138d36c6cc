import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { faultOfUrl } from "../../events/post.ts"
import { makeSecret } from "../../events/webhook.ts"
import type { Sink } from "../../ledger/feed/sinks.ts"
import { invalidField, invalidRequest } from "../../wire/fault.ts"
import { bodyOf } from "../../wire/record.ts"
import { meteredKinds, type SinkKind, STRIPE_KNOWS_MS } from "../../wire/sink-kinds.ts"
import {
  KEEP_HOURS,
  NewSink,
  Replay,
  Rotation,
  SinkBody,
  SinkChange,
  SinksBody,
  SinkWithSecretBody,
} from "../../wire/sinks.ts"
import { EXAMPLE_ID, exampleOf } from "../reference/example.ts"
import { answer, errorOf, found, shown } from "../reference/operation.ts"
import { NO_SINK, ofLedger, ofOne } from "../reference/routes.ts"
import { FEED_ARCHIVED } from "../routing.ts"
import type { Operators } from "./operators.ts"

/** `/admin/sinks`: the receivers of events (D96). */
export function sinkRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-sinks" })
    .post(
      "/sinks",
      async ({ body, status }) => {
        const { kind = "webhook", types = null, allow_private = false, from = null, token, ...sink } = body
        checkUrl(body.url, allow_private)
        checkKind(kind, body)
        if (from !== null) checkFrom(kind, from)
        const secret = token ?? makeSecret()
        const meter = body.meter ?? null
        const made = await ledger.createSink({ ...sink, kind, meter, types, allow_private, from, secret })
        if (made.outcome === "conflict")
          throw invalidRequest("Another sink already has this name or this id. Nothing was changed.", "name")
        return made.outcome === "created"
          ? status(201, withSecret(made.sink))
          : status(200, sinkBody(made.sink))
      },
      ofLedger({
        body: shown(NewSink, {
          sink: { name: "billing", url: "https://billing.example.com/tollgate" },
          stripe: {
            name: "stripe",
            kind: "stripe",
            url: "https://stripe.example.com",
            token: "rk_live_51Q7",
            meter: "tollgate_nano_usd",
          },
          repeatable: {
            id: EXAMPLE_ID,
            name: "credits",
            url: "https://billing.example.com/tollgate",
            types: ["tollgate.credit.added"],
          },
        }),
        response: {
          200: answer(
            "The sink was created earlier, as its name and address say. Nothing was changed.",
            SinkBody,
            { billing },
          ),
          201: answer("The sink.", SinkWithSecretBody, {
            billing,
            credits: { ...billing, types: ["tollgate.credit.added"] },
            stripe: {
              name: "stripe",
              kind: "stripe",
              url: "https://stripe.example.com",
              reason: null,
              meter: "tollgate_nano_usd",
              secret: null,
            },
          }),
        },
        operationId: "createSink",
        summary: "Create a sink",
        description:
          "Sends every event to an address, signed as [Standard Webhooks](https://www.standardwebhooks.com) describes, until the receiver has taken it; or to OpenMeter, Stripe or Lago, with a token for their API. Without `from`, it begins with the next event; a few that were written just before may come too. The secret is shown only in this response.",
        invalid: "name",
      }),
    )
    .get(
      "/sinks",
      async () => ({ data: (await ledger.listSinks()).map(sinkBody) }),
      ofLedger({
        response: {
          200: answer("All sinks, by name.", SinksBody, { sinks: { data: [exampleOf(SinkBody, billing)] } }),
        },
        operationId: "listSinks",
        summary: "List sinks",
        description: "Lists the receivers of events, whether they take them, and how far they are behind.",
      }),
    )
    .patch(
      "/sinks/:id",
      async ({ params: { id }, body }) => {
        const { kind, url, allow_private } = await known(id)
        if (body.token !== undefined && kind === "webhook") throw noSuchField("token")
        if (body.url !== undefined) {
          checkUrl(body.url, allow_private)
          // The token is sent to the address, so someone who changes only the address must not receive it.
          if (
            kind !== "webhook" &&
            body.token === undefined &&
            new URL(body.url).origin !== new URL(url).origin
          )
            throw invalidField("token", `the token for the API of ${kind} at the new address`)
        }
        return sinkBody(found(await ledger.changeSink(id, body), NO_SINK))
      },
      ofOne("sink", {
        body: shown(SinkChange, { pause: { paused: true }, resume: { paused: false } }),
        response: {
          200: answer("The changed sink.", SinkBody, {
            paused: { ...billing, state: "paused" },
            active: billing,
          }),
        },
        operationId: "changeSink",
        summary: "Change, pause or resume a sink",
        description:
          "Fields that you leave out stay unchanged. A new origin in `url` needs the `token` again, except for a webhook. No event is lost while a sink is paused: it continues where it was. Stripe forgets the ids of events after 24 hours: before you resume its sink after a longer time, look in Stripe for the meter events after `delivered_at`, because those that it has would be counted again. Any change makes a failing sink try again immediately.",
        invalid: "paused",
      }),
    )
    .post(
      "/sinks/:id/rotate",
      async ({ params: { id }, body: { keep_hours = KEEP_HOURS } }) => {
        if ((await known(id)).kind !== "webhook")
          throw invalidRequest(
            "Only webhooks have a secret that Tollgate makes. Change the `token` of the sink instead. Nothing was changed.",
          )
        return withSecret(found(await ledger.rotateSink(id, makeSecret(), keep_hours), NO_SINK))
      },
      ofOne("sink", {
        body: shown(Rotation, { rotation: {}, at_once: { keep_hours: 0 } }),
        response: {
          200: answer("The sink, with its new secret.", SinkWithSecretBody, { billing }),
        },
        operationId: "rotateSink",
        summary: "Rotate the secret of a sink",
        description:
          "For some hours, messages have two signatures: by the new secret and by the one before. The secret is shown only in this response.",
        invalid: "keep_hours",
      }),
    )
    .post(
      "/sinks/:id/replay",
      async ({ params: { id }, body: { from } }) => {
        checkFrom((await known(id)).kind, from)
        return sinkBody(found(await ledger.replaySink(id, from), NO_SINK))
      },
      ofOne("sink", {
        body: shown(Replay, { replay: { from: "2026-11-25T00:00:00Z" } }),
        response: { 200: answer("The sink, which continues from there.", SinkBody, { billing }) },
        operationId: "replaySink",
        summary: "Send events again",
        description: "Sends every event since a time, with the ids that it had before.",
        invalid: "from",
        errors: [{ code: "archived", message: FEED_ARCHIVED }],
      }),
    )
    .delete(
      "/sinks/:id",
      async ({ params: { id }, status }) => {
        if (!(await ledger.deleteSink(id))) throw errorOf(NO_SINK)
        return status(204, undefined)
      },
      ofOne("sink", {
        response: { 204: answer("The sink was deleted.", Type.Void()) },
        operationId: "deleteSink",
        summary: "Delete a sink",
        description: "Nothing more is sent to it, and its place in the feed is forgotten.",
      }),
    )

  async function known(id: string): Promise<Sink> {
    const sinks = await ledger.listSinks()
    return found(sinks.find((sink) => sink.id === id) ?? null, NO_SINK)
  }
}

function checkFrom(kind: SinkKind, from: Date): void {
  if (kind === "stripe" && Date.now() - from.getTime() > STRIPE_KNOWS_MS)
    throw invalidField("from", "a time in the last 20 hours, because Stripe would count older events again")
}

/** A vendor needs a token, and some a meter; a webhook has neither. */
function checkKind(
  kind: SinkKind,
  { token, meter }: { readonly token?: string; readonly meter?: string },
): void {
  const is_vendor = kind !== "webhook"
  if (is_vendor && token === undefined) throw invalidField("token", `the token for the API of ${kind}`)
  if (!is_vendor && token !== undefined) throw noSuchField("token")
  if (meteredKinds.has(kind) && meter === undefined)
    throw invalidField("meter", `the meter's name at ${kind}`)
  if (!meteredKinds.has(kind) && meter !== undefined) throw noSuchField("meter")
}

const noSuchField = (name: string) => invalidField(name, "no such field for a sink of this kind")

function checkUrl(url: string, allow_private: boolean): void {
  const fault = faultOfUrl(url, allow_private)
  if (fault !== null) throw invalidField("url", fault)
}

export function sinkBody(sink: Sink): SinkBody {
  return bodyOf(SinkBody, shownSink(sink))
}

function withSecret(sink: Sink): SinkWithSecretBody {
  const { kind, secret } = sink
  return bodyOf(SinkWithSecretBody, { ...shownSink(sink), secret: kind === "webhook" ? secret : null })
}

function shownSink(sink: Sink) {
  const { state, failures, lag_s } = sink
  return {
    ...sink,
    state: state === "active" && failures > 0 ? "failing" : state,
    lag_seconds: lag_s && Math.round(lag_s * 1_000) / 1_000,
  }
}

const billing = { reason: null }
