import { join } from "node:path"
import { errorTable } from "../../src/routes/docs/errors.ts"

export const ERRORS_PAGE = join(import.meta.dir, "../../docs/errors.md")

/** The text of `docs/errors.md`: made of the one catalogue, so that it cannot say anything else than the reference. */
export function errorsPage(): string {
  return `# Errors

Every error has one shape, which the OpenAI and the Anthropic SDKs both read:

\`\`\`json
{
  "type": "error",
  "error": {
    "type": "billing_error",
    "message": "The call must hold 0.016394 USD, and 0.0021 USD are available; it would fit with max_tokens of at most 1045.",
    "param": null,
    "code": "insufficient_balance",
    "needed": "0.016394",
    "available": "0.0021",
    "max_tokens": 1045
  },
  "request_id": "019f8b1c-6a2e-7000-9c41-2f6d0e5b7a13"
}
\`\`\`

\`code\` is what programs go by, \`message\` is for people, and \`request_id\` (also in the headers \`x-request-id\` and \`request-id\`) is what
to give an operator. Where a provider's own refusal is passed on, \`code\`, \`type\` and \`param\` are the provider's.

- SDKs try again by themselves after 408, 429 and 5xx, and wait as long as \`retry-after\` says. Where that would be in vain the answer has
  \`x-should-retry: false\`.
- After a stream has begun its status cannot change: an error is then the last event, \`data: {"error": …}\`, and no \`[DONE]\` follows.
- Nothing is charged for a call that ends with one of these errors, except for a stream that had begun (what it had delivered is) and for
  \`response_too_large\`.
- Which errors an operation can give, with an example of each, is in the reference at \`/docs\` of every gateway.

${errorTable()}

This page is written from \`src/errors.ts\` and \`src/routes/docs/errors.ts\` by \`bun test/docs/write.ts\`; a test compares them.
`
}
