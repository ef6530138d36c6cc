import { openDatabase } from "../../src/ledger/database/database.ts"
import { DatabaseLedger } from "../../src/ledger/database-ledger.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { holdOf, LONG_LEASE, settled, silent } from "./test-database.ts"

/** A process that holds, loses the database, settles, and says the call's id once the settlement is on its disk. */

const { address, data_dir, account } = await Bun.stdin.json()
const proxy = await DatabaseProxy.start(address)
const ledger = await DatabaseLedger.open({
  database: await openDatabase(proxy.address),
  data_dir,
  lease: LONG_LEASE,
  log: silent,
  checkpoints: () => [],
})
const hold = holdOf(account, 100n)
await ledger.hold(hold)
proxy.refuse()
void ledger.end(settled(hold.id, 77n))
while (ledger.depths().spool === 0) await Bun.sleep(1)
const spooled = async () => {
  const [name] = await Array.fromAsync(new Bun.Glob("spool/*.jsonl").scan({ cwd: data_dir }))
  return name !== undefined && (await Bun.file(`${data_dir}/${name}`).text()).endsWith("\n")
}
while (!(await spooled())) await Bun.sleep(1)
console.log(hold.id)
