import { Elysia } from "elysia"
import type { Archived } from "../../ledger/archive/archive.ts"
import { invalidRequest } from "../../wire/fault.ts"
import { DumpBody, DumpNote, DumpQuestion, MonthDone, MonthQuestion } from "../../wire/ledger-checks.ts"
import { ofLedger } from "../reference/examples.ts"
import { answer, errorOf, found, notFound, shown } from "../reference/operation.ts"
import type { Operators } from "./operators.ts"

const NO_MONTH = notFound("This month is not sealed, or its entries were dropped.")

/** Dumps of sealed months, and the end of months that are detached (D75). */
export function archiveRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-archive" })
    .post(
      "/journal/dump",
      async ({ body: { month, shard, from = null } }) => {
        const { lines, next } = found(await ledger.dumpPart({ month, shard }, from), NO_MONTH)
        return { lines: [...lines], next }
      },
      ofLedger({
        body: shown(DumpQuestion, { first: { month: "2026-10" } }),
        response: {
          200: answer("A part of the dump.", DumpBody, {
            last: { lines: ['{"hold":{"id": "019a3f2b-1c00-7000-8000-000000000000"}}'], next: null },
          }),
        },
        operationId: "dumpMonth",
        summary: "Read a part of the dump of a month",
        description:
          "Reads the seal and the entries of a sealed month, 5,000 calls at a time. The text of each line is the one that the seal's hashes are made of, so the dump can be checked without the database. `tollgate journal --dump` does all of this.",
        invalid: "month",
        errors: [NO_MONTH],
      }),
    )
    .post(
      "/journal/dumped",
      async ({ body: { month, shard, hash, archive } }) => {
        refuse(await ledger.noteDump({ month, shard }, { hash, archive }))
        return { month }
      },
      ofLedger({
        body: shown(DumpNote, {
          noted: {
            month: "2026-10",
            hash: "9f2c1b7e04d85a36c1f0e9b8a7d6c5b4a3928170f6e5d4c3b2a1908f7e6d5c4b",
            archive: "s3://backups/2026-10.gz",
          },
        }),
        response: { 200: answer("The dump was noted.", MonthDone, { noted: { month: "2026-10" } }) },
        operationId: "noteDump",
        summary: "Note where the dump of a month is",
        description:
          "Notes that a dump of a sealed month was made whose hash is that of its seal. Needed before its tables can be dropped. Can be repeated with another place.",
        invalid: "month",
        errors: [NO_MONTH],
      }),
    )
    .post(
      "/journal/drop",
      async ({ body: { month, shard } }) => {
        refuse(await ledger.dropMonth({ month, shard }))
        return { month }
      },
      ofLedger({
        body: shown(MonthQuestion, { dropped: { month: "2026-10" } }),
        response: { 200: answer("The tables were dropped.", MonthDone, { dropped: { month: "2026-10" } }) },
        operationId: "dropMonth",
        summary: "Drop the tables of a detached month",
        description:
          "Drops the entries of a detached month whose dump was noted. Its seal and the sums of its hours and days stay.",
        invalid: "month",
        errors: [NO_MONTH],
      }),
    )
}

const REFUSALS = {
  different: "No dump of this month with the hash of its seal was made: dump it again.",
  attached:
    "This month is in the journal still: a gateway detaches it after `journal.keep` of the configuration.",
} as const

function refuse(archived: Archived): void {
  if (archived === "unsealed") throw errorOf(NO_MONTH)
  if (archived !== "done") throw invalidRequest(REFUSALS[archived], "month")
}
