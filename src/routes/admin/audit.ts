import { Elysia } from "elysia"
import { toGatewayError } from "../../errors.ts"
import { type Audit, type AuditOptions, type AuditProgress, audit } from "../../ledger/journal/audit.ts"
import { printUsd } from "../../money.ts"
import { AuditBody, type AuditLine, AuditProgressQuery, AuditQuery } from "../../wire/ledger-checks.ts"
import { printTime } from "../../wire/time.ts"
import { accountExample, ERRORS } from "../docs/examples.ts"
import { ask } from "../ledger-deadline.ts"
import { answer, operation, text } from "../openapi.ts"
import type { Operators } from "./operators.ts"

/** The longest time that a timer takes. */
const MAX_TIMER_MS = 2 ** 31 - 1
/** How often a line of progress is written at most. */
const LINE_MS = 1_000

/** `/admin/audit`: whether the balances agree with the journal. */
export function auditRoutes(operators: Operators) {
  return new Elysia({ name: "admin-audit" })
    .get(
      "/audit",
      async ({ query }) => {
        const { signal, abort } = aborting()
        try {
          const asked = audit(operators.shards[0].database, { full: query.full === "true", signal })
          return await bodyOf(operators, ask({ deadline_ms: operators.audit_deadline_ms }, asked))
        } finally {
          abort()
        }
      },
      auditing,
    )
    .get(
      "/audit/progress",
      async ({ query: { full, share = 10 } }) => {
        const lines = await linesOf(operators, { full: full === "true", share: share / 100 })
        return new Response(lines, { headers: { "content-type": "application/x-ndjson" } })
      },
      following,
    )
}

function aborting() {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}

async function bodyOf(operators: Operators, asked: Promise<Audit>): Promise<AuditBody> {
  const found = await asked
  const unheld = (await operators.unheld?.()) ?? []
  const audited = { ...found, violations: [...found.violations, ...unheld] }
  operators.onAudit?.(audited)
  return auditBody(audited)
}

/** An audit as lines of JSON, from its first slice on. It ends when nobody reads them any more. */
async function linesOf(
  operators: Operators,
  options: Pick<AuditOptions, "full" | "share">,
): Promise<ReadableStream> {
  const { signal, abort } = aborting()
  const begun = Promise.withResolvers<void>()
  let latest: AuditProgress | null = null
  let tell = () => {}
  const onProgress = (progress: AuditProgress) => {
    latest = progress
    begun.resolve()
    tell()
  }
  const asked = audit(operators.shards[0].database, { ...options, signal, onProgress })
  asked.then(() => begun.resolve(), begun.reject)
  try {
    await ask({ deadline_ms: operators.audit_deadline_ms }, begun.promise)
  } catch (error) {
    abort()
    throw error
  }
  const encoder = new TextEncoder()
  return new ReadableStream({
    async start(lines) {
      const write = (line: AuditLine) => lines.enqueue(encoder.encode(`${JSON.stringify(line)}\n`))
      let written_ms = Number.NEGATIVE_INFINITY
      tell = () => {
        if (signal.aborted || latest === null || performance.now() - written_ms < LINE_MS) return
        written_ms = performance.now()
        write(latest)
      }
      tell()
      try {
        // Each statement has a deadline of its own.
        write({ audit: await bodyOf(operators, ask({ deadline_ms: MAX_TIMER_MS }, asked)) })
      } catch (error) {
        if (signal.aborted) return
        write({ error: { message: toGatewayError(error).message } })
      }
      lines.close()
    },
    cancel: abort,
  })
}

function auditBody({ checked_at, accounts, open_holds, violations }: Audit): AuditBody {
  return {
    checked_at: printTime(checked_at),
    accounts,
    open_holds,
    violations: violations.map(({ account_id, kind, id, recorded_nano, expected_nano }) => ({
      account_id,
      kind,
      id,
      recorded: recorded_nano === null ? null : printUsd(recorded_nano),
      expected: expected_nano === null ? null : printUsd(expected_nano),
    })),
  }
}

const clean = {
  checked_at: "2026-11-21T09:40:00.000Z",
  accounts: 3,
  open_holds: 12,
  violations: [],
}

const auditing = {
  query: AuditQuery,
  response: {
    200: answer("The result. `violations` is empty if the ledger is consistent.", AuditBody, {
      clean,
      violated: {
        ...clean,
        violations: [
          {
            account_id: accountExample.id,
            kind: "balance",
            id: null,
            recorded: "9.9871",
            expected: "9.987",
          },
        ],
      },
    }),
  },
  detail: operation({
    operationId: "audit",
    tag: "Ledger",
    summary: "Audit the ledger",
    description:
      "Recomputes the balance and the held amount of every account, what every spending limit has counted, and the charge of every call from its tokens and prices. Sealed months count by the sums in their seals. All calls of the other months are read, so run it occasionally, not every second. It takes 55 seconds at most; for more calls than that, follow it with `/admin/audit/progress`.",
    credentials: ["adminToken"],
    errors: ERRORS,
  }),
}

const following = {
  query: AuditProgressQuery,
  response: {
    200: answer(
      "Lines of JSON: how far the audit has come, at most one per second. The last line has the result as `audit`, like `GET /admin/audit`, or an `error`.",
      text("application/x-ndjson"),
    ),
  },
  detail: operation({
    operationId: "followAudit",
    tag: "Ledger",
    summary: "Audit the ledger, with its progress",
    description:
      "Runs the same audit for as long as it takes, in small pieces with rests in between. It ends when the connection is closed.",
    credentials: ["adminToken"],
    errors: ERRORS,
  }),
}
