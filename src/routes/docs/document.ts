import manifest from "../../../package.json" with { type: "json" }
import { components, type Documentation, tags } from "../openapi.ts"
import { errorTable } from "./errors.ts"

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
}

function introduction(): string {
  return `An LLM gateway that bills by the token, exactly. Clients keep their SDKs:

- **OpenAI SDKs**: \`base_url\` is this address with \`/v1\`, the API key a key of this gateway.
- **Anthropic SDKs**: \`base_url\` is this address, the API key the same; they can count tokens here.

Every answer carries its id as \`x-request-id\` and \`request-id\`. For a billed call it is also the call's number in the books.`
}

function billing(): string {
  return `## How a call is billed

Before a call reaches a provider, the most it can cost is held on its account. Afterwards the call is charged once, and the rest of
the hold is released.

| | What the provider sent | What is charged |
|---|---|---|
| 1 | valid usage | that usage, at the price the call was admitted at |
| 2 | JSON object, usage missing or invalid | an estimate of its output, at least one token |
| 3 | JSON answer blank or malformed | nothing: \`usage_missing\` or \`usage_invalid\` |
| 4 | stream without valid final usage | the last valid usage plus later output, or an estimate of the output seen |
| 5 | stream cut by the provider, the client or the way between | the same |
| 6 | stream without usage and without output | nothing: an empty stream with status 200 |`
}

function faults(): string {
  return `## Errors

One shape for every error, with its code in \`error.code\` and a sentence for people in \`error.message\`. After a stream has begun, an
error is its last event instead. Where another attempt makes sense, \`retry-after\` says when.

<details>
<summary>Every error, with its cause and its cure</summary>

${errorTable()}

</details>`
}
