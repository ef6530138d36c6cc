import { afterAll, expect, test } from "bun:test"
import type { ShardAddress } from "../../src/ledger/shards.ts"
import type { BudgetBody } from "../../src/wire/budget-bodies.ts"
import type { OneOrMore } from "../../src/wire/list.ts"
import type { MoveBody } from "../../src/wire/moves.ts"
import { type } from "../cli/command.ts"
import { ADMIN_TOKEN, chat, startGateway, type TestGateway, until, untilIs } from "../support/gateway.ts"
import { nanoOf } from "../support/price.ts"
import { chatCompletion, heldBack, json, startProvider, usage } from "../support/provider.ts"
import { chatBody, postJson } from "../support/request.ts"
import { thrown } from "../support/thrown.ts"
import { twoShards } from "../support/two-shards.ts"

/** D76: accounts move between the shards of two gateways, whose calls go on; each shard has an operator's gateway of its own. */

const ANSWER = json(200, chatCompletion("hello there", { usage: usage(10, 5) }))
/** 10 prompt tokens and 5 of output at the prices of the tests, in nano-USD. */
const CHARGE_NANO = 30_000n

const provider = await startProvider()
provider.reply(ANSWER)
const { shards, drop } = await twoShards()
const start = (...some: OneOrMore<ShardAddress>) => startGateway(provider, { tags: ["team"] }, null, some)
const first = await start(shards[0])
const second = await start(shards[1])
const both = [await start(...shards), await start(...shards)] as const

afterAll(async () => {
  for (const gateway of both) await gateway.stop()
  for (const gateway of [first, second]) {
    expect(await gateway.audit()).toMatchObject({ open_holds: 0, violations: [] })
    await gateway.stop()
  }
  await drop()
  await provider.stop()
})

interface Moved {
  readonly step: MoveBody["step"]
  readonly held: string
  readonly violations: unknown[]
}

const move = (id: string, to: string, gateway = both[0]) =>
  gateway.admin<Moved>("POST", `/accounts/${id}/move`, { to })

async function moveToEnd(id: string, to: string): Promise<void> {
  const { violations } = await untilIs(() => move(id, to), { step: "done" })
  expect(violations).toEqual([])
}

const leftIn = async ({ sql }: TestGateway, id: string) => [
  ...(await sql`SELECT balance_nano::text AS balance, held_nano::text AS held, moved_to FROM tollgate.accounts WHERE id = ${id}`),
]

test("no call is lost or charged twice while its account moves there and back, and clients see only 200 and 503", async () => {
  const account = await first.account("100")
  let running = true
  let sold = 0
  const refused: Record<string, number> = {}
  const retry_afters = new Set<string | null>()
  const customers = both.flatMap((gateway) =>
    Array.from({ length: 3 }, async () => {
      while (running) {
        const response = await chat(gateway, account.key)
        if (response.status === 200) {
          sold += 1
          await response.text()
        } else {
          const { error }: { error: { code: string } } = JSON.parse(await response.text())
          const what = `${response.status} ${error.code}`
          refused[what] = (refused[what] ?? 0) + 1
          retry_afters.add(response.headers.get("retry-after"))
          await Bun.sleep(50)
        }
      }
    }),
  )
  const soldMore = (than: number) =>
    until(
      () => sold,
      (now) => now > than + 10,
    )
  await soldMore(sold)
  for (const [to, home, left] of [
    ["b", second, first],
    ["a", first, second],
  ] as const) {
    await moveToEnd(account.id, to)
    await soldMore(sold)
    expect(await leftIn(left, account.id)).toEqual([{ balance: "0", held: "0", moved_to: to }])
    expect(nanoOf((await home.balance(account.id)).balance)).toBeGreaterThan(0n)
  }
  running = false
  await Promise.all(customers)
  expect(Object.keys(refused)).toEqual(["503 ledger_unavailable"])
  expect([...retry_afters]).toEqual(["2"])
  const { balance } = await untilIs(() => first.balance(account.id), { held: "0" })
  expect(nanoOf(balance)).toBe(100_000_000_000n - BigInt(sold) * CHARGE_NANO)
})

test("an open call is waited for, and a move can be cancelled and taken up by another gateway", async () => {
  const account = await first.account()
  const gate = heldBack(ANSWER)
  provider.replyOnce(gate.held)
  const asked = provider.requests.length + 1
  const answering = chat(both[1], account.key)
  await provider.exchange(asked)
  expect(await move(account.id, "b")).toMatchObject({ step: "draining" })
  const status = async () => (await chat(both[1], account.key)).status
  expect(await status()).toBe(503)
  expect(await move(account.id, "a", both[1])).toMatchObject({ step: "cancelled" })
  expect(await status()).toBe(200)
  gate.release()
  expect((await answering).status).toBe(200)
  await until(
    () => move(account.id, "b", both[1]).catch(() => null),
    (moved) => moved?.step === "done",
  )
  expect(await status()).toBe(200)
  expect(await second.calls(`?account=${account.id}`)).toHaveLength(1)
})

/** The counters of the budgets of an account in a shard. */
const countersIn = async ({ sql }: TestGateway, id: string) => [
  ...(await sql`SELECT b.name, w.member, w.since, w.spent::int, w.held::int, w.members FROM tollgate.budget_windows w
    JOIN tollgate.budgets b ON b.id = w.id WHERE w.account_id = ${id} ORDER BY b.name, w.member`),
]

test("D97 budgets of each end user and each tag refuse alike after a move, and no counter is lost", async () => {
  const { id, key } = await first.account("100")
  const create = (name: string, body: object) =>
    first.admin<BudgetBody>("POST", `/accounts/${id}/budgets`, {
      ...{ name, amount: "2", unit: "requests", per: "total", ...body },
    })
  const users = await create("users", { selector: "end_user" })
  const teams = await create("teams", { selector: "tag", selected: "team" })
  const headersOf = (end_user: string, team: string) => ({
    "x-tollgate-end-user": end_user,
    "x-tollgate-tags": `team=${team}`,
  })
  const call = async (end_user: string, team: string, gateway = both[1]) => {
    const answer = await chat(gateway, key, {}, { headers: headersOf(end_user, team) })
    const { error }: { error?: { budget: { id: string } } } = JSON.parse(await answer.text())
    return error?.budget.id ?? answer.status
  }
  expect([await call("ann", "a"), await call("bob", "a", both[0]), await call("cid", "b")]).toEqual([
    ...[200, 200, 200],
  ])
  expect([await call("dan", "a"), await call("dan", "a", both[0])]).toEqual([teams.id, teams.id])
  const before = await until(
    () => countersIn(first, id),
    (found) => found.every(({ held }) => held === 0),
  )
  expect(before.map(({ name, spent, members }) => [name, spent, members])).toEqual([
    ["teams", 0, 2],
    ["teams", 2, 0],
    ["teams", 1, 0],
    ["users", 0, 3],
    ...[1, 1, 1].map((spent) => ["users", spent, 0]),
  ])
  await moveToEnd(id, "b")
  expect(await countersIn(second, id)).toEqual(before)
  // A gateway that has seen the account in its former shard finds it by a reading, too.
  expect(await both[1].own<object>("/v1/account", key)).toMatchObject({ id })
  expect([await call("dan", "a"), await call("ann", "b", both[0]), await call("ann", "c")]).toEqual([
    ...[teams.id, 200, users.id],
  ])
  expect([await call("dan", "b"), await call("dan", "c")]).toEqual([teams.id, 200])
  for (const { url } of both)
    expect(
      await (await postJson(`${url}/v1/quote`, key, chatBody(), headersOf("ann", "c"))).json(),
    ).toMatchObject({
      refusal: "budget_reached",
      budgets: [
        { id: teams.id, selected: "team=c", spent: "1", left: "1" },
        { id: users.id, spent: "2", left: "0" },
      ],
    })
  const after = await until(
    () => countersIn(second, id),
    (found) => found.every(({ held }) => held === 0),
  )
  expect(after.map(({ spent }) => spent)).toEqual([...[0, 2, 2, 1], ...[0, 2, 1, 1, 1]])
  for (const gateway of [first, second])
    expect(await gateway.audit()).toMatchObject({ open_holds: 0, violations: [] })
})

test("is refused for another shard than those there are, for the present one, and with only one", async () => {
  const { id } = await first.account("0")
  for (const [gateway, account_id, to, message] of [
    [both[0], id, "c", "No shard has this name. The shards are: a, b."],
    [both[0], id, "a", "The account is in this shard already."],
    [first, id, "b", "There is only one shard, so no account can be moved."],
    [both[0], crypto.randomUUID(), "b", "No account has this id."],
  ] as const)
    expect(String(await thrown(move(account_id, to, gateway)))).toContain(message)
})

test("the command line moves an account to its end, and says why it cannot", async () => {
  const { id, key } = await first.account()
  const env = { TOLLGATE_URL: both[0].url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN }
  const ended = await type(["accounts", "move", id, "--to", "b"], env)
  expect(ended).toMatchObject({ code: 0, out: "✓ The account is in shard b.\n" })
  expect((await chat(both[1], key)).status).toBe(200)
  const again = await type(["accounts", "move", id, "--to", "b", "--json"], env)
  expect(JSON.parse(again.out)).toMatchObject({ step: "done", to: "b", violations: [] })
  const unknown = await type(["accounts", "move", id, "--to", "c"], env)
  expect(unknown.code).toBe(1)
  expect(unknown.err).toContain("No shard has this name. The shards are: a, b.")
  expect((await type(["accounts", "move", id], env)).err).toContain("--to is required")
})
