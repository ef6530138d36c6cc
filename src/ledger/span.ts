import { and, eq, gte, inArray, isNotNull, lt, type SQL, sql } from "drizzle-orm"
import { floorId } from "../id.ts"
import { reservations } from "./schema.ts"

/** Which calls of the books are looked at: those whose id was made from `from` on and before `to`. */
export interface Span {
  readonly from: Date
  readonly to: Date
  readonly account_ids?: readonly string[] | undefined
  readonly key_id?: string | undefined
  readonly model?: string | undefined
}

/** The calls of a span that ended. Ids begin with their time, so the span is a range of the primary key. */
export function endedWithin({ from, to, account_ids, key_id, model }: Span): SQL | undefined {
  return and(
    gte(reservations.id, floorId(from)),
    lt(reservations.id, floorId(to)),
    isNotNull(reservations.charge_nano),
    account_ids === undefined ? undefined : inArray(reservations.account_id, [...account_ids]),
    key_id === undefined ? undefined : eq(reservations.key_id, key_id),
    model === undefined ? undefined : eq(reservations.model, model),
  )
}

/** In which of the periods that begin at `starts` a call lies: 0 for the first one and what is before it. */
export function periodOfCall(starts: readonly Date[]): SQL {
  return sql`width_bucket(${reservations.id}, ${`{${starts.slice(1).map(floorId).join(",")}}`}::uuid[])`
}
