import type { PageOf } from "../../ledger/database/page.ts"
import { errorOf } from "../reference/operation.ts"

/** A page of rows as an answer. Throws the error `missing` if there is nothing that could have rows. */
export function pageBody<Row, Body>(
  found: PageOf<Row> | null,
  bodyOf: (row: Row) => Body,
  missing: Parameters<typeof errorOf>[0],
): { data: Body[]; next: string | null } {
  if (found === null) throw errorOf(missing)
  return { data: found.data.map((row) => bodyOf(row)), next: found.next }
}
