import { InFlight } from "../../src/admission/in-flight.ts"
import { Call } from "../../src/call/call.ts"
import type { Model } from "../../src/config/config.ts"
import type { CallLedger, End, Hold, ShardLedger } from "../../src/ledger/entries.ts"
import { readJson } from "../../src/meter/json-reading.ts"
import type { Evidence, StreamEvidence } from "../../src/meter/reading.ts"
import { Framer } from "../../src/meter/sse.ts"
import { atMultiplier, PAR_BP, parseMultiplier } from "../../src/money.ts"
import { assembled } from "../../src/operations/assembled.ts"
import { chat } from "../../src/operations/chat.ts"
import { embeddings } from "../../src/operations/embeddings.ts"
import { messages } from "../../src/operations/messages.ts"
import type { NamedModel, Operation, OperationOn } from "../../src/operations/operation.ts"
import { responses } from "../../src/operations/responses.ts"
import { settle } from "../../src/settlement/settle.ts"
import { type ReaderName, readers } from "../../src/usage/readers.ts"
import type { UsageRules } from "../../src/usage/reading.ts"
import type { UsageReading } from "../../src/wire/usage.ts"
import { quoteOf } from "../admission/model.ts"
import type { Dialect } from "./dialects.ts"
import type { Body } from "./requests.ts"

/** The gateway without its sockets and its database: what it holds for a request, and what it charges for an answer. */

export interface Admitted {
  readonly operation: Operation
  readonly model: Model
  readonly held_nano: bigint
  /** Whether it may cost what its client is not shown, as the request says. */
  readonly is_hiding: boolean
  readonly rules: UsageRules
  readonly choices: number
  /** The charge of evidence. Any number of them can be priced. */
  charge(evidence: Evidence): End
}

type Admit = (body: Body, model: Model, margin: string, reader: ReaderName) => Admitted

/** What the operation of a dialect holds. Throws if the request is refused. */
export function admit(dialect: Dialect, body: Body, model: Model, margin: string): Admitted {
  return ADMIT[dialect.operation](body, model, margin, dialect.reader)
}

const ADMIT: Readonly<Record<Dialect["operation"], Admit>> = {
  chat: admitting(chat),
  responses: admitting(responses),
  messages: admitting(messages),
  embeddings: admitting(embeddings),
}

function admitting<Request extends NamedModel>(operation: OperationOn<Request>): Admit {
  return (body, model, margin, reader) => {
    const request = operation.parse(JSON.parse(JSON.stringify(body)))
    const quoted = quoteOf(operation, request, model)
    const hold = atMultiplier(
      {
        ...HOLD,
        amount_nano: quoted.amount_nano,
        cost_pico: quoted.cost_pico,
        stream: operation.streams(request),
      },
      multiplierOf(margin),
    )
    return {
      operation,
      model,
      held_nano: hold.amount_nano,
      is_hiding: quoted.is_hiding,
      rules: { ...quoted, reader: readers[reader] },
      choices: quoted.n,
      charge(evidence) {
        const call = new Call(operation, hold, model, [], quoted, new InFlight(), { releaseSlot() {} }, 0)
        return settle(LEDGER, call, evidence, () => {}).end
      },
    }
  }
}

const HOLD: Hold = {
  id: "",
  account_id: "",
  key_id: "",
  amount_nano: 0n,
  terms_id: 1,
  stream: false,
  idempotency: null,
}

function multiplierOf(text: string): number | undefined {
  const price_multiplier_bp = parseMultiplier(text)
  if (price_multiplier_bp === null) throw new Error(`no margin: ${text}`)
  return price_multiplier_bp === PAR_BP ? undefined : price_multiplier_bp
}

const unused = (): never => {
  throw new Error("a settlement does not need this")
}
const LEDGER: CallLedger = {
  standing: unused,
  owner: unused,
  forget: unused,
  elsewhere: unused,
  shard: () => SHARD,
}
const SHARD: ShardLedger = {
  labels: unused,
  customerTerms: unused,
  hold: unused,
  attempted: unused,
  recordEstimate() {},
  refused() {},
  keepAnswer: unused,
  keptAnswer: unused,
  end: () => Promise.resolve(),
  spooled: () => Promise.resolve(),
}

export function jsonEvidence({ operation, rules }: Admitted, text: string): Evidence {
  return readJson(operation.json, Buffer.from(text), "completed", rules)
}

/** What a stream in answer to a JSON call proves, and what its client gets. */
export async function asJson({ operation, rules, choices }: Admitted, text: string) {
  if (operation.stream === null) throw new Error("this operation does not stream")
  const { evidence, bytes } = await assembled(
    operation.stream,
    Buffer.from(text),
    choices,
    EVENT_BYTES,
    rules,
  )
  const json: unknown = JSON.parse(Buffer.from(bytes).toString())
  return { evidence, json }
}

/** What the reading of a stream says after one of its events. */
export interface Snapshot {
  readonly evidence: StreamEvidence
  /** Whether the stream is over: the client got all of it. */
  readonly is_over: boolean
  /** Whether the whole answer is there, so that the gateway waits for the usage (D9). */
  readonly is_paused: boolean
}

const EVENT_BYTES = 8_388_608

export function readStream(
  { operation, rules, choices }: Admitted,
  events: readonly string[],
): readonly Snapshot[] {
  const reading = operation.stream?.open(choices, rules)
  if (reading === undefined) throw new Error("this operation does not stream")
  const framer = new Framer(EVENT_BYTES, reading.recurring)
  return events.map((text) => {
    for (const event of framer.feed(Buffer.from(text))) reading.take(event)
    return {
      evidence: reading.evidence("client_left"),
      is_over: reading.done || reading.usage_final,
      is_paused: reading.paused,
    }
  })
}

/** Whether a usage counts reasoning. */
export function tellsReasoning(usage: UsageReading): boolean {
  return usage.state === "valid" && (usage.usage.buckets?.reasoning ?? 0) > 0
}
