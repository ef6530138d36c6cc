import { connect } from "../../src/ledger/database/address.ts"
import { openSession } from "../../src/ledger/database/connection.ts"

/** Prints, as JSON, what each URL of the command line gives with both drivers: whether it is encrypted, or the error's message. */

const IS_ENCRYPTED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
const said = (error: unknown) => (error instanceof Error ? error.message : String(error))

const results = []
for (const url of process.argv.slice(2)) {
  const client = connect({ url }, { max: 1 })
  const session = openSession({ url }, true, () => {})
  const answers = [client.unsafe(IS_ENCRYPTED), session.query(IS_ENCRYPTED, [])]
  results.push(await Promise.all(answers.map((answer) => answer.then(([row]) => row?.ssl, said))))
  await Promise.all([client.end(), session.end()])
}
console.log(JSON.stringify(results))
