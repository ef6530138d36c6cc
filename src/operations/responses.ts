import { askedOfResponses, measureResponses } from "../admission/asked-responses.ts"
import { chatCredential } from "../admission/request-headers.ts"
import { errorBody } from "../errors.ts"
import type { JsonForm } from "../meter/json-reading.ts"
import { LargeAnswer } from "../meter/large-answer.ts"
import { reportsError } from "../meter/reading.ts"
import { printedEvent, responseEvents } from "../meter/responses-events.ts"
import { isSearch, itemsOf, ResponsesLargeOutput, responseBytes } from "../meter/responses-output.ts"
import { ResponsesReading } from "../meter/responses-reading.ts"
import type { EventForm, OperationOn } from "../operation.ts"
import { isSpoken, refusalError } from "../upstream/refusal.ts"
import { FieldTexts } from "../wire/json.ts"
import { parseResponses, type ResponsesRequest } from "../wire/responses-request.ts"
import { type JsonObject, readResponseUsage, type UsageLimits, type UsageReading } from "../wire/usage.ts"

const encoder = new TextEncoder()

function usageOf(response: JsonObject, limits: UsageLimits): UsageReading {
  return readResponseUsage(response, limits, itemsOf(response).filter(isSearch).length)
}

const json: JsonForm = {
  usageOf,
  outputBytes: responseBytes,
  isError: (response) => reportsError(response) && itemsOf(response).length === 0,
  openLarge: () => new LargeAnswer(new ResponsesLargeOutput(), usageOf),
}

const stream: EventForm = {
  open: (_choices, limits) => new ResponsesReading(limits),
  commit: encoder.encode(": ok\n\n"),
  keepalive: encoder.encode(": keepalive\n\n"),
  end: null,
  keeps_last: true,
  errorEvent(error, request_id) {
    const body = errorBody(error, request_id).error
    const { code, message, param } = body
    return encoder.encode(
      printedEvent({ type: "error", code, message, param, sequence_number: 0, error: body }),
    )
  },
  eventsOf: responseEvents,
}

const NO_CHANGES = {}

/** Responses (D66). */
export const responses: OperationOn<ResponsesRequest> = {
  name: "responses",
  family: "chat",
  path: "/responses",
  generates: true,
  limit_field: "max_output_tokens",
  json,
  stream,
  refusals: { isRead: isSpoken, errorOf: refusalError },
  credential: chatCredential,
  passed: () => null,
  parse: parseResponses,
  texts: (request) => new FieldTexts(request),
  changes: () => NO_CHANGES,
  streams: ({ stream }) => stream === true,
  wantsUsage: () => true,
  wantsCost: () => false,
  askedFor: askedOfResponses,
  measure: measureResponses,
  maxTokens: ({ max_output_tokens }) => max_output_tokens ?? 0,
  choices: () => 1,
}
