import { join } from "node:path"
import { errorTable } from "../../src/routes/reference/operation.ts"

export const ERRORS_PAGE = join(import.meta.dir, "../../docs/errors.md")

/** The text of `docs/errors.md`, generated from the catalogue so that the page and the reference cannot differ. */
export function errorsPage(): string {
  return `# Errors

All errors have the same shape, which both the OpenAI and the Anthropic SDKs can read:

\`\`\`json
{
  "type": "error",
  "error": {
    "type": "billing_error",
    "message": "This call needs a hold of 0.016394 USD, but only 0.0021 USD is available. Add credit, or set max_tokens to at most 1045.",
    "param": null,
    "code": "insufficient_balance",
    "needed": "0.016394",
    "available": "0.0021",
    "max_tokens": 1045
  },
  "request_id": "019f8b1c-6a2e-7000-9c41-2f6d0e5b7a13"
}
\`\`\`

Programs should check \`code\`; \`message\` is for people. Give the \`request_id\` (also in the headers \`x-request-id\` and \`request-id\`)
to the operator when you report a problem. When the gateway passes on a provider's own error, \`code\`, \`type\` and \`param\` are the provider's.

- SDKs retry automatically after 408, 429 and 5xx, and wait for the time in \`retry-after\`. Where a retry cannot help, the response has
  \`x-should-retry: false\`.
- The status of a stream cannot change after it has started. An error is then the last event, \`data: {"error": …}\`, and no \`[DONE]\` follows.
- A call that ends with one of these errors is not charged. There are two exceptions: a stream that had started is charged for what it
  delivered, and \`response_too_large\` is charged although nothing was delivered.
- Operators see refused calls by account, key and code: \`tollgate refusals\`.
- The reference at \`/docs\` of every gateway lists the errors of each operation, with an example of each.

${errorTable()}

This page is generated from \`src/errors.ts\` by \`bun test/docs/write.ts\`. A test compares them.
`
}
