import { NEVER } from "../call/cutoff.ts"
import {
  type Config,
  type Credential,
  haveOutput,
  type Model,
  type Route,
  type Upstream,
} from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { nextId } from "../id.ts"
import { sentTo } from "../upstream/edits.ts"
import { attempt } from "../upstream/forward.ts"
import { errorObject, type ProviderRefusal } from "../upstream/refusal.ts"
import { readers } from "../usage/readers.ts"
import { ANY_USAGE, firstCounted, StreamUsage, usagesOf, WITH_OUTPUT } from "../usage/reading.ts"
import type { OperationName } from "../wire/call.ts"
import { FieldTexts } from "../wire/json.ts"
import { isObject, objectOf, parseJson, type UsageReading } from "../wire/usage.ts"
import { type Finding, type FindingVerdict, finding } from "./finding.ts"
import {
  keyVerdict,
  LATER,
  misplacedPath,
  quotedMessage,
  UNEXPLAINED_FIX,
  UNREAD_FIX,
} from "./provider-words.ts"

/** The smallest call of each operation (D84). The responses operation of OpenAI takes no lower limit than 16. */
const CALLS: Readonly<Record<OperationName, { readonly path: string; readonly body: object }>> = {
  chat: {
    path: "/chat/completions",
    body: {
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 1,
      stream: true,
      stream_options: { include_usage: true },
    },
  },
  responses: { path: "/responses", body: { input: "Hi", max_output_tokens: 16, stream: true } },
  embeddings: { path: "/embeddings", body: { input: "Hi" } },
  messages: {
    path: "/v1/messages",
    body: { messages: [{ role: "user", content: "Hi" }], max_tokens: 1, stream: true },
  },
}

const MOST_MS = 30_000

/** The most model names that are called with each key, because the provider may bill each call. */
const MOST_MODELS = 10

/** A call to try: a model at an upstream, for the model's first operation. */
interface CallTarget {
  readonly upstream: Upstream
  readonly key: Credential
  readonly route: Route
  readonly model: Model
  readonly operation: OperationName
}

/** A call of one token for each of the first models of an upstream, with one of its keys. `what` names both. */
export async function callUpstream(
  what: string,
  upstream: Upstream,
  key: Credential,
  { models, vendors }: Config,
): Promise<readonly Finding[]> {
  const all = models.flatMap((model) =>
    model.routes.flatMap((route): CallTarget[] => {
      const [operation] = model.operations
      return route.upstream !== upstream || operation === undefined
        ? []
        : [{ upstream, key, route, model, operation }]
    }),
  )
  const names = ({ operation, route }: CallTarget) => `${operation} ${route.model}`
  const tried = [...Map.groupBy(all, names).values()].flatMap(([first]) => first ?? [])
  const untried = tried.splice(MOST_MODELS).map(({ route }) => route.model)
  const findings = await Promise.all(
    tried.map(async (target) =>
      finding(`call of ${what}, model ${target.route.model}`, await callOf(target, vendors)),
    ),
  )
  if (untried.length === 0) return findings
  const rest = `not tried (at most ${MOST_MODELS} models): ${untried.join(", ")}`
  return [...findings, finding(`calls of ${what}`, rest)]
}

async function callOf(target: CallTarget, vendors: readonly string[]): Promise<FindingVerdict> {
  const { body } = CALLS[target.operation]
  const first = await answerOf(target, vendors, body)
  // Reasoning models accept the limit only under its newer name.
  const renamed = first.kind === "refused" && /max_completion_tokens/.test(first.refusal.body)
  const answer = renamed ? await answerOf(target, vendors, withNewerLimit(body)) : first
  switch (answer.kind) {
    case "none":
      return [answer.fault, LATER]
    case "refused":
      return refusalVerdict(target, answer.status, answer.refusal)
    case "answered":
      return usageVerdict(target, answer.text)
  }
}

type UpstreamAnswer =
  | { readonly kind: "answered"; readonly text: string }
  | { readonly kind: "refused"; readonly status: number; readonly refusal: ProviderRefusal }
  | { readonly kind: "none"; readonly fault: string }

function withNewerLimit(body: object): object {
  const fields = Object.entries(body)
  return Object.fromEntries(
    fields.map(([name, value]) => [name === "max_tokens" ? "max_completion_tokens" : name, value]),
  )
}

async function answerOf(
  { upstream, key, route, model, operation }: CallTarget,
  vendors: readonly string[],
  body: object,
): Promise<UpstreamAnswer> {
  const { timeouts } = upstream
  const quick = { first_byte_ms: Math.min(MOST_MS, timeouts.first_byte_ms), total_ms: MOST_MS }
  const place = { ...upstream, timeouts: { ...timeouts, ...quick } }
  let refusal: ProviderRefusal | null = null
  const texts = new FieldTexts({ ...body, model: route.model })
  texts.set(model.set)
  const versions = vendors.map((vendor) => [`${vendor}-version`, "2023-06-01"])
  const outgoing = {
    request_id: nextId(),
    account_id: "",
    affinity: null,
    path: CALLS[operation].path,
    stream: haveOutput([operation]),
    body: () => sentTo(upstream, texts, {}),
    headers: operation === "messages" ? Object.fromEntries(versions) : null,
    refusals: {
      isRead: () => true,
      errorOf(provider_refusal: ProviderRefusal) {
        refusal = provider_refusal
        return new GatewayError("upstream_error")
      },
    },
    signal: NEVER,
  }
  const came = await attempt({ route: { ...route, upstream: place }, key }, outgoing, performance.now(), null)
  if (came.kind === "reply") {
    try {
      return { kind: "answered", text: new TextDecoder().decode(await came.body.bytes()) }
    } catch {
      return { kind: "none", fault: "its answer broke off" }
    }
  }
  await came.error()
  const { outcome, fault } = came
  if (typeof outcome === "number" && refusal !== null) return { kind: "refused", status: outcome, refusal }
  return { kind: "none", fault: `no answer: ${fault ?? outcome}` }
}

/** Words of a refusal because of the model's name. */
const UNKNOWN_MODEL =
  /(?:models?|deployment|endpoint)\b.{0,200}(?:not (?:found|exist|available|a valid)|n't (?:exist|found|supported on this route))|(?:unknown|invalid|no such) (?:model|deployment)|(?:model_?|deployment)not_?found/is
/** OpenAI's error if reasoning does not end within the limit. The call was made. */
const LIMIT_REACHED = /max_tokens or model output limit was reached/

function refusalVerdict(
  target: CallTarget,
  status: number,
  { body, ...provider_refusal }: ProviderRefusal,
): FindingVerdict {
  const { upstream, key, route, model, operation } = target
  const words = `(status ${status})${quotedMessage(body, upstream.secrets)}`
  const { code, message } = errorObject(body)
  if (provider_refusal.status === 402) return keyVerdict(upstream, key, status, body)
  if (LIMIT_REACHED.test(body)) return `answers as ${route.model}, but needs more than one token`
  if (provider_refusal.status === 429) return "is rate-limited now, so the call was not made"
  if (status >= 500) return [`answers with an error ${words}`, LATER]
  if ((status === 404 || status === 400) && UNKNOWN_MODEL.test(`${code} ${message}`))
    return [
      `does not know the model ${route.model} ${words}`,
      `Correct \`model\` of this upstream in the model ${model.name}.`,
    ]
  if (status === 404 || status === 405) {
    const settings = [...new URLSearchParams(upstream.query).keys()].map((name) => `query.${name}`)
    const found = `has no ${CALLS[operation].path} below ${upstream.base_url} ${words}`
    const fix = `Correct ${["base_url", ...settings].join(", ")} or family of upstreams.${upstream.name}, or the operations of the model ${model.name}.`
    return misplacedPath(upstream) ?? [found, fix]
  }
  const fix = /\bstream_options\b/.test(body)
    ? `Add \`drop: [stream_options]\` to upstreams.${upstream.name}.`
    : "Compare the upstream with the provider's API reference."
  return [`refuses the request ${words}`, fix]
}

function usageVerdict({ upstream, route, operation }: CallTarget, text: string): FindingVerdict {
  const payloads = payloadsOf(text)
  if (payloads.length === 0)
    return [
      "answers, but neither with JSON nor with events",
      `Correct upstreams.${upstream.name}.base_url: this is not the address of an API.`,
    ]
  const failed = payloads.find((payload) => !("choices" in payload) && isObject(payload.error))
  if (failed !== undefined)
    return [`fails after status 200${quotedMessage(JSON.stringify(failed), upstream.secrets)}`, LATER]
  const reading = readingOf(payloads, upstream, operation)
  if (reading.state !== "valid")
    return [
      `answers as ${route.model}, but its usage is ${reading.state}, so estimates are charged`,
      "Ask the provider how it reports the usage of a stream; docs/billing.md says what is charged without it.",
    ]
  const { prompt_tokens, completion_tokens } = reading.usage
  const found = `answers as ${route.model}; usage ${prompt_tokens} tokens in, ${completion_tokens} out`
  const unread = reading.aside?.unread ?? []
  if (unread.length > 0) return [`${found}, with unknown numbers: ${unread.join(", ")}`, UNREAD_FIX]
  return reading.notes.includes("total_unexplained")
    ? [`${found}, but its parts do not add up to its total`, UNEXPLAINED_FIX]
    : found
}

function readingOf(
  payloads: readonly Readonly<Record<string, unknown>>[],
  upstream: Upstream,
  operation: OperationName,
): UsageReading {
  const rules = { ...ANY_USAGE, reader: readers[upstream.usage] }
  const usage = new StreamUsage(rules)
  const expected = haveOutput([operation]) ? WITH_OUTPUT : { output: false }
  for (const payload of payloads) {
    const holder = objectOf(payload.response ?? payload.message ?? payload)
    usage.take(firstCounted(usagesOf(holder), rules), expected, operation === "messages")
  }
  return usage.reading
}

/** The JSON objects of an answer: one for each event, or the whole body. */
function payloadsOf(text: string): readonly Readonly<Record<string, unknown>>[] {
  const events = text.split(/\r\n|\n|\r/).flatMap((line) => (line.startsWith("data:") ? line.slice(5) : []))
  return (events.length > 0 ? events : [text]).map(parseJson).filter(isObject)
}
