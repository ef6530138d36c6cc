import { afterAll, expect, test } from "bun:test"
import type { TransactionSql } from "postgres"
import { connect } from "../../src/ledger/database/address.ts"
import { freshDatabase } from "../support/database.ts"
import { DatabaseProxy } from "../support/proxy.ts"

/** What patches/postgres@3.4.9.patch mends in the driver. Without it, the first test ends this process. */

const removes: (() => Promise<unknown>)[] = []

const { address, drop } = await freshDatabase()
const client = connect(address, { max: 1, onnotice: () => {} })
const other = connect(address, { max: 1, onnotice: () => {} })
await other`CREATE TABLE public.written (name text)`
removes.push(
  () => client.end(),
  () => other.end(),
  drop,
)
afterAll(async () => {
  for (const remove of removes) await remove()
})

/** Ends the connection of the transaction, and resolves once the driver knows. */
async function cut(transaction: TransactionSql): Promise<void> {
  const [row] = await transaction`SELECT pg_backend_pid() AS pid`
  const lost = transaction`SELECT pg_sleep(10)`.then(
    () => "answered",
    () => "lost",
  )
  await other`SELECT pg_terminate_backend(${row?.pid}, 5000)`
  expect(await lost).toBe("lost")
}

const outcomeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    () => "failed",
  )

test("a transaction whose connection was lost fails, and the next one works", async () => {
  expect(await outcomeOf(client.begin(cut))).toBe("failed")
  expect(await client.begin((transaction) => transaction`SELECT 1 AS one`)).toMatchObject([{ one: 1 }])
})

test("no later statement of it runs on the connection that replaces the lost one", async () => {
  const late = Promise.withResolvers<string>()
  const lost = client.begin(async (transaction) => {
    await cut(transaction)
    await client`INSERT INTO public.written VALUES ('of its own')`
    late.resolve(
      await outcomeOf(transaction`INSERT INTO public.written VALUES ('of the transaction')`.execute()),
    )
  })
  expect(await outcomeOf(lost)).toBe("failed")
  expect(await late.promise).toBe("failed")
  expect(await other`SELECT name FROM public.written`).toMatchObject([{ name: "of its own" }])
})

test("a connection that is lost before its first statement fails nothing that nobody waits for", async () => {
  const proxy = await DatabaseProxy.start(address)
  const through = connect(proxy.address, { max: 1, onnotice: () => {} })
  const asked = proxy.meet(/pg_catalog\.pg_type/, "done")
  const outcome = outcomeOf(through`SELECT 1 AS one`)
  const { lose } = await asked
  proxy.reset()
  lose()
  expect(await outcome).toBe("failed")
  expect(await through`SELECT 1 AS one`).toMatchObject([{ one: 1 }])
  await through.end()
  await proxy.stop()
})
