import { Elysia } from "elysia"
import type { Audit, AuditOptions, AuditProgress, AuditRecord } from "../../ledger/archive/audit.ts"
import { PageQuery, pageOf } from "../../wire/admin-query.ts"
import {
  AuditBody,
  type AuditLine,
  AuditProgressQuery,
  AuditQuery,
  AuditRecordBody,
  Violation,
} from "../../wire/ledger-checks.ts"
import { bodyOf } from "../../wire/record.ts"
import { pageBody } from "../record-bodies.ts"
import { exampleOf } from "../reference/example.ts"
import { answer, page, text } from "../reference/operation.ts"
import { ofLedger } from "../reference/routes.ts"
import { faultOf } from "../routing.ts"
import { actorOf } from "./authorize.ts"
import type { Operators } from "./operators.ts"

/** The shortest time between lines of progress. */
const LINE_MS = 1_000

/** `/admin/audit`: a comparison of the balances with the journal. */
export function auditRoutes({ ledger, onAudit }: Operators) {
  /** Ends when nobody waits for it. */
  const audited = async (options: AuditOptions): Promise<AuditBody> => {
    const found = await ledger.audit(options)
    onAudit?.(found)
    return auditBody(found)
  }
  return new Elysia({ name: "admin-audit" })
    .get(
      "/audit",
      async ({ query, request }) => {
        const controller = new AbortController()
        const actor = actorOf(request).name
        try {
          return await audited({ actor, full: query.full === "true", signal: controller.signal })
        } finally {
          controller.abort()
        }
      },
      ofLedger({
        query: AuditQuery,
        response: {
          200: answer("The result. `violations` is empty if the ledger is consistent.", AuditBody, {
            clean: { violations: [] },
            violated: { violations: [exampleOf(Violation, { id: null })] },
          }),
        },
        operationId: "audit",
        summary: "Audit the ledger",
        description:
          "Recomputes the balance and the held amount of every account, the counter of every spending limit, and the charge of every call from its tokens and prices. Sealed months count by the sums in their seals. It reads all calls of the other months, so run it occasionally, not every second. It takes 55 seconds at most. If there are more calls, use `/admin/audit/progress`.",
      }),
    )
    .get(
      "/audit/progress",
      async ({ query: { full, share = 10 }, request }) => {
        const actor = actorOf(request).name
        const lines = await linesOf(audited, { actor, full: full === "true", share: share / 100 })
        return new Response(lines, { headers: { "content-type": "application/x-ndjson" } })
      },
      ofLedger({
        query: AuditProgressQuery,
        response: {
          200: answer(
            "Lines of JSON with the progress, at most one per second. The last line has the result as `audit`, like `GET /admin/audit`, or an `error`.",
            text("application/x-ndjson"),
          ),
        },
        operationId: "followAudit",
        summary: "Audit the ledger, with its progress",
        description:
          "Runs the same audit for as long as it takes, in small pieces with pauses between them. It ends when the connection is closed.",
      }),
    )
    .get(
      "/audits",
      async ({ query }) => pageBody(await ledger.listAudits(pageOf(query)), recordBody),
      ofLedger({
        query: PageQuery,
        response: {
          200: page("audits", AuditRecordBody, { scope: "open" }),
        },
        operationId: "listAudits",
        summary: "List audits",
        description:
          "Lists the audits that ended, newest first: when, who asked for it, the result, and a hash of what was read. With several shards, an audit has a record in each. Records cannot be changed.",
      }),
    )
}

/** An audit as lines of JSON, from its first slice on. Ends when nobody reads them. */
async function linesOf(
  audited: (options: AuditOptions) => Promise<AuditBody>,
  options: Pick<AuditOptions, "actor" | "full" | "share">,
): Promise<ReadableStream> {
  const controller = new AbortController()
  const { signal } = controller
  const begun = Promise.withResolvers<void>()
  let latest: AuditProgress | null = null
  let report = () => {}
  const onProgress = (progress: AuditProgress) => {
    latest = progress
    begun.resolve()
    report()
  }
  const auditing = audited({ ...options, signal, onProgress })
  auditing.then(() => begun.resolve(), begun.reject)
  try {
    await begun.promise
  } catch (error) {
    controller.abort()
    throw error
  }
  const encoder = new TextEncoder()
  return new ReadableStream({
    async start(lines) {
      const write = (line: AuditLine) => lines.enqueue(encoder.encode(`${JSON.stringify(line)}\n`))
      let written_ms = Number.NEGATIVE_INFINITY
      report = () => {
        if (signal.aborted || latest === null || performance.now() - written_ms < LINE_MS) return
        written_ms = performance.now()
        write(latest)
      }
      report()
      try {
        write({ audit: await auditing })
      } catch (error) {
        if (signal.aborted) return
        controller.abort()
        write({ error: { message: faultOf(error).message } })
      }
      lines.close()
    },
    cancel: () => controller.abort(),
  })
}

function auditBody(audit: Audit): AuditBody {
  const violations = audit.violations.map((violation) => bodyOf(Violation, violation))
  return bodyOf(AuditBody, { ...audit, violations })
}

function recordBody(record: AuditRecord): AuditRecordBody {
  return bodyOf(AuditRecordBody, { ...record, scope: record.is_full ? "all" : "open" })
}
