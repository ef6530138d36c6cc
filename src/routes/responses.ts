import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { responseEvents, responses } from "../operations/responses.ts"
import type { Gateway } from "../service/gateway.ts"
import { Count } from "../wire/admin.ts"
import { count, open, text } from "../wire/field.ts"
import { ResponsesRequest } from "../wire/requests.ts"
import { answering } from "./model-calls.ts"
import { answer, compatible, events, shown } from "./reference/operation.ts"
import { callErrors, ofCalls } from "./reference/routes.ts"

/** `POST /v1/responses` and `/responses` (D66). */
export function responseCalls(gateway: Gateway) {
  const answers = answering(gateway, responses)
  return new Elysia({ name: "responses" })
    .post("/v1/responses", answers, creating)
    .post("/responses", answers, compatible(creating, "createResponseCompatible"))
}

/** Schemas of the provider's answers, for the reference only. The bytes pass unchanged, with all further fields (D24). */

const Usage = open(
  {
    input_tokens: Count,
    input_tokens_details: Type.Optional(
      open({
        cached_tokens: count("The part of `input_tokens` that is charged at the cached price."),
      }),
    ),
    output_tokens: Count,
    output_tokens_details: Type.Optional(
      open({
        reasoning_tokens: count("The part of `output_tokens` that is reasoning."),
      }),
    ),
    total_tokens: Count,
  },
  "The usage that the call is charged for, if it is valid.",
)

const Response = open({
  id: Type.String(),
  object: Type.Literal("response"),
  created_at: Type.Integer({ description: "Unix seconds." }),
  status: text("`completed`, `incomplete` or `failed`."),
  model: text("The provider's name of the model."),
  output: Type.Array(open({ type: Type.String() }), {
    description: "Messages, calls of tools and reasoning, in their order.",
  }),
  usage: Type.Optional(Type.Union([Usage, Type.Null()])),
})

const ResponseEvent = open(
  {
    type: text("The name of the event."),
    sequence_number: Count,
  },
  "The data of one event. The last event is `response.completed`, `response.incomplete` or `response.failed`; each has the whole response.",
)

const content = [{ type: "output_text", text: "Hello there!", annotations: [] }]
const response = {
  id: "resp_8f2c",
  object: "response",
  created_at: 1_763_712_000,
  status: "completed",
  error: null,
  incomplete_details: null,
  model: "gpt-5-mini-2025-08-07",
  output: [{ id: "msg_8f2c", type: "message", status: "completed", role: "assistant", content }],
  usage: {
    input_tokens: 14,
    input_tokens_details: { cached_tokens: 8 },
    output_tokens: 3,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 17,
  },
}
const description = `Holds, sends, charges and releases like a chat completion, by the same rules.

- Fields that are not listed are passed to the provider unchanged.
- The call is charged by the usage of its last event, \`response.completed\`, \`response.incomplete\` or \`response.failed\`, which is sent
  once the charge is recorded. If the provider's stream ends without one of them, the gateway ends it with an event \`error\`, and charges the output so far.
- Cached tokens are part of \`input_tokens\`, and reasoning is part of \`output_tokens\`.
- Ignore lines that start with a colon, such as \`: keepalive\`: they are comments.
- \`background\` is refused. \`previous_response_id\`, \`conversation\`, stored prompts and references to items hold the model's
  \`context_tokens\`, and are refused if the operator has not set that.
- Tools that the provider runs for a fee need a price of the model, such as \`web_search\` and \`file_search\`. Tools without a known
  fee are refused, such as \`image_generation\`. Tools that the client runs pass. \`mcp\`, \`tool_search\` and every other tool of the
  provider hold \`context_tokens\` for each round that the operator has set.
- A 402 states the amount to hold, the amount available, and the largest \`max_output_tokens\` that fits, as \`max_tokens\`.`

const creating = ofCalls({
  body: shown(ResponsesRequest, {
    JSON: { model: "gpt-5-mini", input: "Say hello." },
    Stream: { model: "gpt-5-mini", input: [{ role: "user", content: "Say hello." }], stream: true },
    "With max_output_tokens, for a smaller hold": {
      model: "gpt-5-mini",
      input: "Say hello.",
      max_output_tokens: 200,
    },
  }),
  response: {
    200: answer(
      "The provider's response: JSON, or events if the request sets `stream`. Unchanged.",
      Type.Union([shown(Response, { Response: response }), events(ResponseEvent, responseEvents(response))]),
    ),
  },

  operationId: "createResponse",
  summary: "Create a response",
  description,
  invalid: "input",
  errors: callErrors({
    needed: "0.016387",
    available: "0.0021",
    remaining: "0.0021",
    fitting: { limit_field: "max_output_tokens", max_tokens: 1048 },
  }),
})
