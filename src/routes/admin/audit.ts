import { Elysia } from "elysia"
import { toGatewayError } from "../../errors.ts"
import {
  type Audit,
  type AuditOptions,
  type AuditProgress,
  addAudits,
  audit,
} from "../../ledger/archive/audit.ts"
import { printUsd } from "../../money.ts"
import { AuditBody, type AuditLine, AuditProgressQuery, AuditQuery } from "../../wire/ledger-checks.ts"
import { printTime } from "../../wire/time.ts"
import { accountExample, ERRORS, unknownParameter } from "../docs/examples.ts"
import { answer, operation, text } from "../openapi.ts"
import type { OperatedShard, Operators } from "./operators.ts"
import { askAll, askShard, shardField } from "./shards.ts"

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
          const full = query.full === "true"
          const found = askAll(operators, (database) => audit(database, { full, signal }), {
            deadline_ms: operators.audit_deadline_ms,
          })
          return await bodyOf(operators, await found)
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

/** `found` has the audit of each shard; what is in their spools is added. */
async function bodyOf(operators: Operators, found: readonly Audit[]): Promise<AuditBody> {
  const audits = await Promise.all(
    found.map(async (one, place) => {
      const unheld = (await operators.unheld?.(place)) ?? []
      return { ...one, violations: [...one.violations, ...unheld] }
    }),
  )
  operators.onAudit?.(audits)
  return auditBody(operators, audits)
}

/** An audit as lines of JSON, from its first slice on, shard by shard. It ends when nobody reads them any longer. */
async function linesOf(
  operators: Operators,
  options: Pick<AuditOptions, "full" | "share">,
): Promise<ReadableStream> {
  const { signal, abort } = aborting()
  const begun = Promise.withResolvers<void>()
  let latest: (AuditProgress & { readonly shard?: string }) | null = null
  let tell = () => {}
  const audited = (shard: OperatedShard, deadline_ms: number) => {
    const onProgress = (progress: AuditProgress) => {
      latest = { ...progress, ...shardField(operators, shard) }
      begun.resolve()
      tell()
    }
    const asked = audit(shard.database, { ...options, signal, onProgress })
    return askShard(operators, shard, () => asked, { deadline_ms })
  }
  const [first, ...others] = operators.shards
  // Each statement has a deadline of its own.
  const asked = audited(first, MAX_TIMER_MS)
  asked.then(() => begun.resolve(), begun.reject)
  try {
    await askShard(operators, first, () => begun.promise, { deadline_ms: operators.audit_deadline_ms })
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
        const found = [await asked]
        for (const shard of others) found.push(await audited(shard, MAX_TIMER_MS))
        write({ audit: await bodyOf(operators, found) })
      } catch (error) {
        if (signal.aborted) return
        write({ error: { message: toGatewayError(error).message } })
      }
      lines.close()
    },
    cancel: abort,
  })
}

function auditBody(operators: Operators, audits: readonly Audit[]): AuditBody {
  const { checked_at, accounts, open_holds } = addAudits(audits)
  const violations = operators.shards.flatMap((shard, place) =>
    (audits[place]?.violations ?? []).map(({ account_id, kind, id, recorded_nano, expected_nano }) => ({
      ...shardField(operators, shard),
      account_id,
      kind,
      id,
      recorded: recorded_nano === null ? null : printUsd(recorded_nano),
      expected: expected_nano === null ? null : printUsd(expected_nano),
    })),
  )
  return { checked_at: printTime(checked_at), accounts, open_holds, violations }
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
    errors: [unknownParameter("full"), ...ERRORS],
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
    errors: [unknownParameter("full, share"), ...ERRORS],
  }),
}
