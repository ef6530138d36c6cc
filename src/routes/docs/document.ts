import manifest from "../../../package.json" with { type: "json" }
import { components, type Documentation, tags } from "../openapi.ts"
import { errorTable } from "./errors.ts"
import { getOpenApi } from "./service.ts"

/** What the OpenAPI document says besides its operations. */
export const documentation: Documentation = {
  info: {
    title: "Tollgate",
    version: manifest.version,
    license: { name: "MIT" },
    description: [introduction(), billing(), faults()].join("\n\n"),
  },
  servers: [{ url: "/", description: "This gateway" }],
  tags: [...tags],
  components,
  paths: { "/docs/json": { get: getOpenApi } },
}

function introduction(): string {
  return `An LLM gateway with exact billing by the token. Clients keep their SDKs:

- **OpenAI SDKs**: set \`base_url\` to this address followed by \`/v1\`, and use an API key of this gateway.
- **Anthropic SDKs**: set \`base_url\` to this address, and use the same API key.

Every response carries a request id in the headers \`x-request-id\` and \`request-id\`. For a billed call it is also the id of the call in the ledger.`
}

function billing(): string {
  return `## How a call is billed

Before a call is sent to a provider, the gateway holds the most that it can cost on the account. After the call it charges the actual
cost once and releases the rest of the hold.

| | The provider sent | The charge |
|---|---|---|
| 1 | valid usage | that usage, at the prices that applied when the call started |
| 2 | a JSON object, usage missing or invalid | an estimate of its output, at least one token |
| 3 | an empty or malformed JSON response | nothing: the error is \`usage_missing\` or \`usage_invalid\` |
| 4 | a stream without valid final usage | the last valid usage plus an estimate of later output, or an estimate of its output |
| 5 | a stream cut off by the provider, the client or the network | the same |
| 6 | a stream without usage and without output | nothing: an empty stream with status 200 |

Embeddings have no output: rule 2 charges an estimate of their input.`
}

function faults(): string {
  return `## Errors

All errors have the same shape, with a code in \`error.code\` and a message for people in \`error.message\`. After a stream has started, an
error is its last event instead. If a retry makes sense, \`retry-after\` says when.

<details>
<summary>All errors, their causes, and what to do</summary>

${errorTable()}

</details>`
}
