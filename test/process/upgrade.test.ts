import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { connect } from "../../src/ledger/database/address.ts"
import { parseUsd, printUsd } from "../../src/money.ts"
import { emptyDatabase, type FreshDatabase } from "../support/database.ts"
import { chat, configFor, until } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { chatCompletion, json, type Provider, startProvider, usage } from "../support/provider.ts"
import type { GatewayProcess } from "./gateway-process.ts"
import { databaseVariables, Workplace } from "./workplace.ts"

/**
 * The upgrade of a ledger that version 0.2.0 wrote itself, and whose gateway was killed during a call: three accounts, keys of which one
 * is limited and one revoked, and calls that were settled, released, cut and left open.
 */

const DUMP = readFileSync(join(import.meta.dir, "../fixtures/ledger-0.2.0.sql"), "utf8")
const Nullable = Type.Union([Type.String(), Type.Null()])
/** What the admin API of 0.2.0 said of it. */
const facts = Value.Parse(
  Type.Object({
    key: Type.String(),
    limited_key: Type.String(),
    revoked_key: Type.String(),
    accounts: Type.Array(
      Type.Object({ id: Type.String(), name: Type.String(), balance: Type.String(), held: Type.String() }),
    ),
    calls: Type.Array(Type.Object({ id: Type.String(), state: Type.String(), charge: Nullable })),
  }),
  JSON.parse(DUMP.split("\n")[1]?.slice(3) ?? "null"),
)
const accountNamed = (name: string) => {
  const found = facts.accounts.find((account) => account.name === name)
  if (found === undefined) throw new Error(`there is no account ${name}`)
  return found
}
/** Of the checkpoint of the call that was open, which its expiry charges. */
const CHECKPOINT_NANO = 40_000n
/** Of 10 prompt and 5 completion tokens. */
const CALL_NANO = 30_000n

let fresh: FreshDatabase
let provider: Provider
let place: Workplace
let gateway: GatewayProcess

beforeAll(async () => {
  fresh = await emptyDatabase()
  const client = connect(fresh.address, { max: 1, onnotice: () => {} })
  await client.unsafe(DUMP)
  await client.end()
  provider = await startProvider()
  provider.reply(json(200, chatCompletion("hello", { usage: usage(10, 5) })))
  place = new Workplace()
  place.configure(configFor(provider.url, { lease: { renew: "200ms", expire: "1s" } }))
  gateway = await place.start(databaseVariables(fresh.address))
})
afterAll(async () => {
  await place.clear()
  await provider.stop()
  await fresh.drop()
})

const balanceOf = async (name: string) =>
  (await operatorOf(gateway.url).balance(accountNamed(name).id)).balance
const less = (usd: string, nano: bigint) => printUsd((parseUsd(usd) ?? 0n) - nano)

describe("D109 the ledger of version 0.2.0, at this version", () => {
  test("has every balance; the call that was open is charged its checkpoint, and holds nothing", async () => {
    const acme = accountNamed("Acme")
    await until(
      () => operatorOf(gateway.url).balance(acme.id),
      ({ held }) => held === "0",
    )
    expect(await balanceOf("Acme")).toBe(less(acme.balance, CHECKPOINT_NANO))
    for (const name of ["Globex", "Initech"]) expect(await balanceOf(name)).toBe(accountNamed(name).balance)
  })

  test("has every call with its state and its charge", async () => {
    expect(facts.calls).toHaveLength(10)
    for (const { id, state, charge } of facts.calls) {
      const open = { state: "expired", charge: printUsd(CHECKPOINT_NANO) }
      expect(await operatorOf(gateway.url).call(id)).toMatchObject(
        state === "open" ? open : { state, charge },
      )
    }
  })

  test("lets its keys call, as they could before", async () => {
    const before = await balanceOf("Acme")
    const statuses = [facts.key, facts.limited_key, facts.revoked_key].map(async (key) => {
      const answer = await chat(gateway, key)
      await answer.text()
      return answer.status
    })
    expect(await Promise.all(statuses)).toEqual([200, 200, 401])
    expect(await balanceOf("Acme")).toBe(less(before, CALL_NANO))
    expect(await balanceOf("Globex")).toBe(less(accountNamed("Globex").balance, CALL_NANO))
  })

  test("passes a full audit, and starts again", async () => {
    const audit = () => operatorOf(gateway.url).admin("GET", "/audit?full=true")
    expect(await audit()).toMatchObject({ accounts: 3, open_holds: 0, violations: [] })
    gateway.signal("SIGTERM")
    expect(await gateway.exited).toBe(0)
    gateway = await place.start(databaseVariables(fresh.address))
    expect(await audit()).toMatchObject({ accounts: 3, open_holds: 0, violations: [] })
  })
})
