import { Elysia } from "elysia"
import type { EstimateSums } from "../../ledger/queue/estimates.ts"
import {
  DEFAULT_DAYS,
  ENOUGH_CALLS,
  EstimateBody,
  EstimatesBody,
  EstimatesQuery,
} from "../../wire/estimates.ts"
import { bodyOf } from "../../wire/record.ts"
import { exampleOf } from "../reference/example.ts"
import { answer } from "../reference/operation.ts"
import { ofLedger } from "../reference/routes.ts"
import type { Operators } from "./operators.ts"

/** A setting is suggested if the current one is off by more than this share. */
const TOLERANCE = 0.1
const CONFIGURABLE = [0.5, 100] as const
/** The bytes per token of most texts. */
const USUAL = [3, 5] as const

/** `/admin/estimates`: better settings for estimates (D92). */
export function estimateRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-estimates" }).get(
    "/estimates",
    async ({ query: { days = DEFAULT_DAYS, model } }) => ({
      days,
      data: (await ledger.estimates(days, model)).map(estimateBody),
    }),
    ofLedger({
      query: EstimatesQuery,
      response: { 200: answer("The estimates.", EstimatesBody, { estimates: { data: [example] } }) },
      operationId: "compareEstimates",
      summary: "Compare estimates with usage",
      description:
        "Shows for each model and operation what calls with final usage say about the estimates of calls without it: how many bytes a token has, how many reasoning tokens of a call clients are not shown, and by how much estimates with the configured settings would be wrong. The error of the output is that of streams whose client disconnects at their end. Each process adds its calls once a minute. Days are kept for 30 days.",
      invalid: "days",
    }),
  )
}

export function estimateBody(sums: EstimateSums): EstimateBody {
  const { bytes_per_token, hidden_output } = sums
  const seen = seenIn(sums)
  const output = sums.output_bytes / bytes_per_token + hidden_output * sums.calls
  return bodyOf(EstimateBody, {
    ...sums,
    seen: {
      bytes_per_token: rounded(seen.bytes_per_token, 2),
      prompt_bytes_per_token: rounded(seen.prompt_bytes_per_token, 2),
      hidden_output: Math.round(seen.hidden_output),
    },
    configured: { bytes_per_token, hidden_output },
    error_percent: {
      output: rounded(excess(output, sums.output_tokens), 1),
      prompt: rounded(excess(sums.prompt_bytes / bytes_per_token, sums.prompt_tokens), 1),
    },
    suggestion: sums.calls < ENOUGH_CALLS ? null : suggestionOf(sums, seen),
  })
}

/**
 * Finds out if the provider sends the text of its reasoning or only counts it. It was sent if, with its tokens, the
 * output has about as many bytes per token as the prompt. If the prompt has an unusual number, because of files or of
 * text that the provider adds, the usual number counts instead.
 */
function seenIn(sums: EstimateSums) {
  const { calls, output_bytes, output_tokens, reasoning_tokens, bytes_per_token } = sums
  const prompt_bytes_per_token = ratio(sums.prompt_bytes, sums.prompt_tokens)
  const hidden = ratio(output_bytes, output_tokens - reasoning_tokens)
  const shown = ratio(output_bytes, output_tokens)
  const expected = within(USUAL, prompt_bytes_per_token ?? bytes_per_token)
  const is_shown = hidden === null || distance(shown ?? hidden, expected) < distance(hidden, expected)
  return {
    bytes_per_token: is_shown ? shown : hidden,
    prompt_bytes_per_token,
    hidden_output: is_shown ? 0 : reasoning_tokens / calls,
  }
}

/** The suggested setting, as a sentence; null if every setting is close enough. The output decides, if there is one. */
function suggestionOf(sums: EstimateSums, seen: ReturnType<typeof seenIn>): string | null {
  const { calls, output_tokens, bytes_per_token, hidden_output } = sums
  const wanted = seen.bytes_per_token ?? seen.prompt_bytes_per_token
  const settings: string[] = []
  if (wanted !== null && Math.abs(wanted / bytes_per_token - 1) > TOLERANCE) {
    const value = within(CONFIGURABLE, Number(wanted.toFixed(1)))
    if (value !== bytes_per_token) settings.push(`bytes_per_token: ${value}`)
  }
  const hidden = Math.round(Number(seen.hidden_output.toPrecision(2)))
  const is_off = Math.abs(hidden_output - seen.hidden_output) * calls > TOLERANCE * output_tokens
  if (is_off && hidden > 0) settings.push(`estimate: { hidden_output: ${hidden} }`)
  const set = settings.length === 0 ? [] : [`set ${settings.join(" and ")}`]
  const remove = is_off && hidden === 0 && hidden_output > 0 ? ["remove estimate.hidden_output"] : []
  const words = [...set, ...remove].join(", and ")
  return words === "" ? null : `${words.slice(0, 1).toUpperCase()}${words.slice(1)}.`
}

function within([least, most]: readonly [number, number], value: number): number {
  return Math.min(most, Math.max(least, value))
}

function ratio(bytes: number, tokens: number): number | null {
  return bytes > 0 && tokens > 0 ? bytes / tokens : null
}

function distance(one: number, other: number): number {
  return Math.abs(Math.log(one / other))
}

function excess(estimated: number, reported: number): number | null {
  return reported > 0 ? (estimated / reported - 1) * 100 : null
}

function rounded(value: number | null, decimals: number): number | null {
  return value === null ? null : Number(value.toFixed(decimals))
}

const example = exampleOf(EstimateBody, { configured: { bytes_per_token: 4, hidden_output: 0 } })
