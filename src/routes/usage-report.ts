import type { UsageSums as Summed, UsageSummary } from "../ledger/reports/usage.ts"
import { printUsd } from "../money.ts"
import { printTime } from "../wire/time.ts"
import type { UsageRange } from "../wire/usage-query.ts"
import type { UsageReport, UsageSums } from "../wire/usage-report.ts"

/** Sums of usage as clients and operators are shown them (D48). */
export function usageReport(
  { from, to, by }: UsageRange,
  { groups, left_out, total }: UsageSummary,
): UsageReport {
  return {
    from: printTime(from),
    to: printTime(to),
    by,
    data: groups.map(({ group, name, ...sums }) => ({
      group: typeof group === "string" ? group : printPeriod(group, by),
      name,
      ...sumsBody(sums),
    })),
    left_out,
    total: sumsBody(total),
  }
}

/** A day by its date, an hour by its first moment. */
function printPeriod(start: Date, by: UsageRange["by"]): string {
  const time = printTime(start)
  return by === "day" ? time.slice(0, "2026-11-21".length) : time
}

function sumsBody({ charge_nano, overage_nano, ...counts }: Summed): UsageSums {
  return { ...counts, charge: printUsd(charge_nano), overage: printUsd(overage_nano) }
}
