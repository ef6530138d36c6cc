import { readFileSync } from "node:fs"
import { eventTypes } from "../wire/events.ts"
import { sinkKinds } from "../wire/sink-kinds.ts"
import { SinkBody, SinksBody, SinkWithSecretBody } from "../wire/sinks.ts"
import { type AdminContext, adminCommand } from "./admin-command.ts"
import { orFail, UsageError } from "./cli-error.ts"
import type { Group } from "./command.ts"
import { columnsOf } from "./screen.ts"
import { idNamed, timeOf } from "./typed-words.ts"

/** `tollgate sinks`: the receivers of events (D96). */

const SINK = { "<sink>": "the name of the sink, or its id" } as const

const column = columnsOf(SinkBody)

export const sinks: Group = {
  summary:
    "Send events to webhooks, OpenMeter, Stripe or Lago: create, list, pause, resume, rotate, replay and delete sinks",
  commands: {
    list: adminCommand({
      is_list: true,
      summary: "List sinks, whether they take events, and how far they are behind",
      words: {},
      examples: { "tollgate sinks": "LAG is the age of the oldest event that is not delivered" },
      async run(_, context) {
        const { data } = await context.client.get("/sinks", SinksBody)
        context.showTable(
          { data },
          {
            rows: data,
            columns: [
              column("name"),
              column("kind", { spare: 4 }),
              column("url", { least: 12, spare: 1 }),
              ...column.each("state", "lag_seconds"),
              column("reason", { spare: 2 }),
              column("delivered_at", { spare: 3 }),
            ],
            empty: "No sinks yet. Create one: tollgate sinks create NAME ADDRESS",
          },
        )
      },
    }),
    create: adminCommand({
      summary: "Create a sink; of a webhook, show its secret once",
      words: {
        "<name>": "a name for the sink",
        "<address>": "where events are sent: an https URL; for a vendor the base of its API",
        "--kind <KIND>": `${sinkKinds.join(", ")} (default: webhook)`,
        "--token-file <FILE>": "a file with the token for the vendor's API",
        "--meter <NAME>": "the event_name of Stripe's meter, or the code of Lago's metric",
        "--types <TYPES>": `only events of these types: ${eventTypes.join(", ")}`,
        "--from <TIME>": "begin with the events of this time: 2026-11-21, an RFC 3339 time, or 24h (ago)",
        "--allow-private": "allow http, and addresses in private networks",
      },
      examples: {
        "tollgate sinks create billing https://billing.example.com/tollgate": "every event from now on",
        "tollgate sinks create top-ups http://10.0.0.5/hook --allow-private --types tollgate.credit.added --from 24h":
          "credits since yesterday, to a private address",
        "tollgate sinks create stripe https://api.stripe.com --kind stripe --meter tollgate_nano_usd --token-file /run/secrets/stripe":
          "charges as meter events of Stripe",
      },
      async run({ name, address: url, types, from, kind, meter, ...options }, context) {
        const { "allow-private": allow_private = false, "token-file": file } = options
        const body = {
          name,
          url,
          allow_private,
          kind,
          meter,
          token: file && tokenIn(file),
          types: types?.split(","),
          from: from && timeOf("--from", from),
        }
        const sink = await context.client.post("/sinks", body, SinkWithSecretBody)
        showSecret(context, sink)
      },
    }),
    pause: adminCommand({
      summary: "Pause a sink: it continues where it was",
      words: SINK,
      examples: { "tollgate sinks pause billing": "no event is lost meanwhile" },
      async run({ sink }, context) {
        await change(context, sink, { paused: true })
      },
    }),
    resume: adminCommand({
      summary: "Resume a sink that was paused or stopped, or try a failing one now",
      words: SINK,
      examples: { "tollgate sinks resume billing": "sends the next event immediately" },
      async run({ sink }, context) {
        const { kind, delivered_at } = await change(context, sink, { paused: false })
        if (kind === "stripe")
          context.remark(
            `Stripe forgets ids after 24 hours. If this sink has been paused or stopped for longer, pause it now and look in Stripe for meter events after ${delivered_at ?? "its creation"}: those that it has would be counted again.`,
          )
      },
    }),
    rotate: adminCommand({
      summary: "Make a new secret for a webhook and show it once, or give another sink a new token",
      details: "For 24 hours, messages have two signatures: by the new secret and by the one before.",
      words: { ...SINK, "--token-file <FILE>": "a file with the vendor's new token" },
      examples: { "tollgate sinks rotate billing": "then give the receiver the new secret" },
      async run({ sink, "token-file": file }, context) {
        if (file !== undefined) {
          await change(context, sink, { token: tokenIn(file) })
          return
        }
        const id = await sinkId(context, sink)
        showSecret(context, await context.client.post(`/sinks/${id}/rotate`, {}, SinkWithSecretBody))
      },
    }),
    replay: adminCommand({
      summary: "Send a sink every event since a time again",
      words: { ...SINK, "--from <TIME>": "the time: 2026-11-21, an RFC 3339 time, or 24h (ago)" },
      examples: { "tollgate sinks replay billing --from 24h": "events have the ids that they had before" },
      async run({ sink, from }, context) {
        if (from === undefined) throw new UsageError("--from is required")
        const id = await sinkId(context, sink)
        const body = { from: timeOf("--from", from) }
        show(context, await context.client.post(`/sinks/${id}/replay`, body, SinkBody))
      },
    }),
    delete: adminCommand({
      summary: "Delete a sink",
      words: SINK,
      examples: { "tollgate sinks delete billing": "nothing more is sent to it" },
      async run({ sink }, context) {
        const id = await sinkId(context, sink)
        await context.client.delete(`/sinks/${id}`)
        context.show(null, () => `Deleted the sink ${sink}.`)
      },
    }),
  },
  standard: "list",
}

const tokenIn = (file: string) => orFail(() => readFileSync(file, "utf8").trim(), `cannot read ${file}: `)

function sinkId({ client }: AdminContext, word: string): Promise<string> {
  return idNamed(word, "sink", "sinks", () => client.get("/sinks", SinksBody), UsageError)
}

async function change(context: AdminContext, sink: string, changes: object): Promise<SinkBody> {
  const id = await sinkId(context, sink)
  const changed = await context.client.patch(`/sinks/${id}`, changes, SinkBody)
  show(context, changed)
  return changed
}

function show(context: AdminContext, sink: SinkBody): void {
  context.showCard(SinkBody, sink, (line) => [
    ...line.each("name", "kind", "url", "state", "lag_seconds", "reason"),
    ...sink.skipped.map(({ id, reason }): [string, string] => ["skipped", `${id}: ${reason}`]),
  ])
}

function showSecret(context: AdminContext, sink: SinkWithSecretBody): void {
  const { secret } = sink
  context.showCard(SinkWithSecretBody, sink, (line) => [
    ...(secret === null ? [] : [["secret", secret] as const]),
    ...line.each("name", "kind", "url", "state"),
  ])
  if (secret !== null) context.remark("Store the secret now: it is not shown again.")
}
