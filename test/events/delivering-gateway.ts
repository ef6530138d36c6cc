import { sql } from "drizzle-orm"
import { deliveriesTo } from "../../src/events/deliveries.ts"
import { nextId } from "../../src/id.ts"
import type { Db } from "../../src/ledger/database/statement.ts"
import { SinkQueue } from "../../src/ledger/feed/sinks.ts"
import { gateways } from "../../src/ledger/schema/tables.ts"

/** Sinks whose rows are claimed some time after they are asked for, and read some time before they are looked at. */
class SlowSinkQueue extends SinkQueue {
  begin: () => Promise<unknown> = async () => {}
  wait: () => Promise<unknown> = async () => {}

  override async claim() {
    await this.begin()
    const claimed = await super.claim()
    await this.wait()
    return claimed
  }
}

/** The part of a gateway that delivers events, with a lease. Its log goes to `lines`. */
export async function deliveringGateway(
  database: Db,
  lines: string[],
  {
    retries_ms = [50],
    beside = [],
  }: { readonly retries_ms?: readonly number[]; readonly beside?: readonly SinkQueue[] | undefined } = {},
) {
  const id = nextId()
  await database.insert(gateways).values({ id, floor_id: id, lease_until: sql`now() + interval '1 hour'` })
  const log = (level: string) => (fields: object, message: string) => {
    lines.push(`${level} ${message} ${JSON.stringify(fields)}`)
  }
  const queue = new SlowSinkQueue("main", database, () => id)
  const deliveries = deliveriesTo({
    queues: [...beside, queue],
    log: { info: log("info"), warn: log("warn"), error: log("error") },
    retries_ms,
    look_ms: 50,
  })
  return { id, deliveries, queue }
}
