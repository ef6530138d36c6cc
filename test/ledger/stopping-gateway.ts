import { openDatabase } from "../../src/ledger/database/database.ts"
import { DatabaseLedger } from "../../src/ledger/database-ledger.ts"
import { holdOf, LONG_LEASE, settled, silent } from "./test-database.ts"

/** A process that serves one call, stops its ledger, and has nothing left to wait for. */

const { address, data_dir, account } = await Bun.stdin.json()
const database = await openDatabase(address)
const ledger = await DatabaseLedger.open({
  database,
  data_dir,
  lease: LONG_LEASE,
  log: silent,
  checkpoints: () => [],
})
const hold = holdOf(account, 10n)
await ledger.hold(hold)
await ledger.end(settled(hold.id, 7n))
await ledger.stop()
await database.close()
console.log("stopped")
