import { expect, test } from "bun:test"
import { MAX_PAGE } from "../../src/wire/admin-query.ts"
import { ADMIN_TOKEN } from "../support/gateway.ts"
import { testGateway } from "../support/test-gateway.ts"
import { type } from "./command.ts"

/** The accounts of a gateway with more of them than a page has. */

const { gateway } = await testGateway()

test("a name is found among all accounts, and said to be taken", async () => {
  const env = { TOLLGATE_URL: gateway.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN }
  const run = (...words: string[]) => type(["accounts", ...words], env)
  const oldest = "00000000-0000-7000-8000-000000000001"
  expect(await run("create", "Acme", "--id", oldest)).toMatchObject({ code: 0, err: "" })
  await gateway.sql`INSERT INTO tollgate.accounts (id, name)
    SELECT (left(${oldest}, 24) || lpad(n::text, 12, '0'))::uuid, 'Newer' FROM generate_series(2, ${MAX_PAGE + 1}::int) n`
  expect((await run("show", "Acme")).out).toContain(oldest)
  expect((await run("create", "Acme")).err).toBe(
    "Another account has the same name, so commands accept only the ids of these accounts.\n",
  )
  expect((await run("show", "Acme")).err).toContain('2 accounts are named "Acme"')
})
