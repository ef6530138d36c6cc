import { ledgerTime, nextId } from "../../src/id.ts"
import { openDatabase } from "../../src/ledger/database/database.ts"
import { openDatabaseLedger } from "../../src/ledger/database-ledger.ts"
import { holdOf, RENEWING, settled, silent } from "./test-database.ts"

/**
 * A process whose clock is wrong by `skew_ms`, and by `step_ms` more once it runs: the ids of its calls before and
 * after that, and what it takes for the ledger's time.
 */

const { address, data_dir, account, skew_ms, step_ms } = await Bun.stdin.json()
const right = Date.now.bind(Date)
let wrong_ms = skew_ms
Date.now = () => right() + wrong_ms

let renewals = 0
const database = await openDatabase(address)
const ledger = await openDatabaseLedger({
  database,
  data_dir,
  lease: RENEWING,
  log: silent,
  checkpoints: () => [],
  events: { statement: (kind) => void (kind === "lease" && renewals++) },
})

async function serve(): Promise<string> {
  const hold = holdOf(account, 10n)
  await ledger.hold(hold)
  await ledger.end(settled(hold.id, 7n))
  return hold.id
}

const before = await serve()
wrong_ms += step_ms
const known = renewals
while (renewals < known + 2) await Bun.sleep(1)
const after = await serve()
const said = { before, after, next: nextId(), time_ms: ledgerTime().getTime() }
await ledger.stop()
await database.close()
console.log(JSON.stringify(said))
