import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { connect } from "../../src/ledger/database/address.ts"
import { emptyDatabase, type FreshDatabase } from "../support/database.ts"
import { chat, configFor } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { HELLO, type Provider, startProvider } from "../support/provider.ts"
import { databaseVariables, Workplace } from "./workplace.ts"

/** D74: the process on a list of shards, alone and with workers. */

describe.each([1, 2])("D74 a gateway of %d processes on the shards of its configuration", (workers) => {
  const place = new Workplace()
  let provider: Provider
  let fresh: FreshDatabase

  beforeAll(async () => {
    provider = await startProvider()
    provider.reply(HELLO)
    fresh = await emptyDatabase()
  })
  afterAll(() => place.clear(provider, fresh))

  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the file
  const shard = { name: "eu", url: "${SHARD_URL}", schema: "books" }

  test("serves from them, starts no database of its own, and refuses a reload that changes them", async () => {
    const { DATABASE_URL = "", ...variables } = databaseVariables(fresh.address)
    place.configure({ ...configFor(provider.url), shards: [shard], workers })
    const gateway = await place.start({ ...variables, SHARD_URL: DATABASE_URL })
    expect(existsSync(join(place.data_dir, "postgres"))).toBeFalse()
    const operator = operatorOf(gateway.url)
    const { id, key } = await operator.account()
    expect((await chat(gateway, key)).status).toBe(200)
    expect(await operator.calls(`?account=${id}`)).toMatchObject([{ charge: "0.00003" }])
    const sql = connect(fresh.address, { max: 1 })
    expect(
      await sql`SELECT to_regnamespace('tollgate') IS NULL AS only_books, (SELECT count(*)::int FROM books.ends) AS ends`,
    ).toMatchObject([{ only_books: true, ends: 1 }])
    await sql.end()

    place.configure({ ...configFor(provider.url), shards: [{ ...shard, open: false }], workers })
    gateway.signal("SIGHUP")
    await gateway.prints("the configuration was not reloaded: the previous one stays in use")
    expect(gateway.printed).toContain(
      "shards cannot be changed by a reload: restart the gateway to apply them",
    )
    expect(gateway.printed).not.toContain(DATABASE_URL)
    expect((await operator.audit()).violations).toEqual([])
  })

  test("does not start with DATABASE_URL beside them", async () => {
    const variables = databaseVariables(fresh.address)
    const gateway = place.spawn({ ...variables, SHARD_URL: variables.DATABASE_URL ?? "" })
    expect(await gateway.exited).toBe(1)
    expect(gateway.complaint).toContain("shards: expected no such key while DATABASE_URL is set")
  })
})
