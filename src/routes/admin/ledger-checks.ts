import { Elysia } from "elysia"
import type { Archived } from "../../ledger/archive/archive.ts"
import type { ListedMonth } from "../../ledger/archive/seals.ts"
import type { CheckedDay } from "../../ledger/reports/sum-hours.ts"
import { invalidRequest } from "../../wire/fault.ts"
import {
  CheckedSealBody,
  CheckedSumsBody,
  DumpBody,
  DumpNote,
  DumpQuestion,
  MonthBody,
  MonthDone,
  MonthQuestion,
  MonthsBody,
  Seal,
  SealCheck,
  SumsCheck,
} from "../../wire/ledger-checks.ts"
import { bodyOf } from "../../wire/record.ts"
import { exampleOf } from "../reference/example.ts"
import { answer, errorOf, found, notFound, shown } from "../reference/operation.ts"
import { ofLedger } from "../reference/routes.ts"
import type { Operators } from "./operators.ts"

/** Checks of the ledger besides the audit: `/admin/journal`, the seals of months (D71) and their dumps (D75), and `/admin/sums` (D72). */
export function ledgerCheckRoutes({ ledger }: Operators) {
  return new Elysia({ name: "admin-ledger-checks" })
    .post(
      "/sums/check",
      async ({ body: { day = null } }) => checkedSums(await ledger.checkSums(day)),
      ofLedger({
        body: shown(SumsCheck, { first: {}, day: { day: "2026-11-20" } }),
        response: {
          200: answer("What was found.", CheckedSumsBody, {
            replaced: { day: "2026-11-20", sums: 1, differed: 1, next: null },
            unsummed: { day: null, sums: 0, differed: 0, next: null },
          }),
        },
        operationId: "checkSums",
        summary: "Check the sums of a day",
        description:
          "Sums up the journal's entries of one UTC day again, by default the first day that has sums, and replaces the sums that differ. Usage, statistics and past balances read these sums. Follow `next` to check all days. A busy day takes some seconds.",
        invalid: "day",
      }),
    )
    .get(
      "/journal",
      async () => ({ data: (await ledger.listMonths()).map(monthBody) }),
      ofLedger({
        response: {
          200: answer("The months, latest first.", MonthsBody, {
            months: { data: [exampleOf(MonthBody), exampleOf(MonthBody, { seal: exampleOf(Seal) })] },
          }),
        },
        operationId: "listMonths",
        summary: "List the months of the journal",
        description:
          "Lists the months of the journal with their seals. A month is sealed a week after its end; from then on it takes no entries. Keep the hash of a seal elsewhere to prove later that nobody changed both the month and its seal.",
      }),
    )
    .post(
      "/journal/check",
      async ({ body: { month, from = null, shard } }) => {
        const seal = found(await ledger.checkSeal({ month, shard }, from), NO_SEAL)
        return { ...seal, entries: Number(seal.entries) }
      },
      ofLedger({
        body: shown(SealCheck, { first: { month: "2026-10" } }),
        response: {
          200: answer("What was found.", CheckedSealBody, {
            unchanged: { entries: 4_211, matches: true, next: "019a3f2b-1c00-0000-0000-000000000000" },
            changed: { entries: 4_210, matches: false, next: null },
          }),
        },
        operationId: "checkSeal",
        summary: "Check an hour of a sealed month",
        description:
          "Computes the hash of the entries of one hour of a sealed month again and compares it with the seal. The first hour of a month, which is the default, also compares the seal's own hash and totals. Follow `next` to check the whole month.",
        invalid: "month",
        errors: [NO_SEAL],
      }),
    )
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
            last: { lines: ['{"hold":{"id": "019a3f2b-1c00-7000-8000-000000000000"}}'] },
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
        response: { 200: answer("The dump was noted.", MonthDone) },
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
        response: { 200: answer("The tables were dropped.", MonthDone) },
        operationId: "dropMonth",
        summary: "Drop the tables of a detached month",
        description:
          "Drops the entries of a detached month whose dump was noted. Its seal and the sums of its hours and days stay.",
        invalid: "month",
        errors: [NO_MONTH],
      }),
    )
}

const NO_SEAL = notFound("No sealed month has this hour.")

function checkedSums(found: CheckedDay | null): CheckedSumsBody {
  if (found === null) return { day: null, sums: 0, differed: 0, next: null }
  const { day, sums, differed, next } = found
  return { day: dayOf(day), sums, differed, next: next && dayOf(next) }
}

function monthBody({ month, seal, ...listed }: ListedMonth): MonthBody {
  return bodyOf(MonthBody, {
    ...listed,
    month: month.slice(0, 7),
    seal: seal && bodyOf(Seal, { ...seal, entries: Number(seal.entries), calls: Number(seal.calls) }),
  })
}

const dayOf = (moment: Date) => moment.toISOString().slice(0, 10)

const NO_MONTH = notFound("This month is not sealed, or its entries were dropped.")

const REFUSALS = {
  different: "No dump of this month matches its seal. Make a new dump.",
  attached:
    "This month is not detached yet. A gateway detaches it after `journal.keep` of the configuration.",
} as const

function refuse(archived: Archived): void {
  if (archived === "unsealed") throw errorOf(NO_MONTH)
  if (archived !== "done") throw invalidRequest(REFUSALS[archived], "month")
}
