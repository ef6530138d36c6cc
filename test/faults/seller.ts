import { nextId } from "../../src/id.ts"
import type { CallRecord } from "../../src/ledger/reports/calls.ts"
import { type OneOrMore, oneOrMore } from "../../src/wire/list.ts"
import { nanoOf } from "./judge.ts"
import type { Random } from "./random.ts"
import type { Scene, SceneAccount } from "./scene.ts"

/** An account that is sold by budgets and grants (D95, D97), and its operator, who changes both while calls run. */

const USD = "50"
const GROUP = "acme/search"
/** Small, so that calls contend for each. */
const BUDGETS = [
  { name: "All", selector: "all", unit: "requests", amount: "100", per: "total" },
  { name: "Team", selector: "group", selected: "acme", unit: "usd", amount: "0.02", per: "hour" },
  { name: "Key", selector: "key", unit: "tokens", amount: "6000", per: "day" },
  { name: "Rate", selector: "all", unit: "tokens", amount: "30000", per: "minute" },
  {
    name: "Model",
    selector: "model",
    selected: "chat-model",
    amount: "0.001",
    per: "month",
    mode: "alert",
    thresholds: [10, 100],
  },
] as const
const STEP_MS = 250

interface Grant {
  readonly id: string
  readonly amount: string
  readonly left: string
  readonly expired: string
  readonly voided: string
}

export class Seller {
  readonly account: SceneAccount
  readonly #scene: Scene
  readonly #budgets: OneOrMore<string>
  /** The amounts of its credits in nano-USD, by id. */
  readonly #given = new Map<string, bigint>()
  /** Those of them that were answered. */
  readonly #sure = new Set<string>()

  private constructor(scene: Scene, account: SceneAccount, budgets: OneOrMore<string>) {
    this.#scene = scene
    this.account = account
    this.#budgets = budgets
  }

  static async open(scene: Scene, shard: number): Promise<Seller> {
    const account = await scene.account("0", shard)
    const { admin } = scene.steady
    await admin("PATCH", `/keys/${account.key_id}`, { group: GROUP })
    const make = async (budget: (typeof BUDGETS)[number]) => {
      const selected = budget.selector === "key" ? { selected: account.key_id } : {}
      const path = `/accounts/${account.id}/budgets`
      return (await admin<{ id: string }>("POST", path, { ...budget, ...selected })).id
    }
    const budgets: string[] = []
    for (const budget of BUDGETS) budgets.push(await make(budget))
    const seller = new Seller(scene, account, oneOrMore(budgets))
    await seller.#credit({ amount: USD })
    return seller
  }

  /** Grants, voids, resets and raises until the function returned is called; it resolves once nothing is on its way. */
  sell(random: Random): () => Promise<void> {
    let running = true
    const selling = (async () => {
      for (; running; await Bun.sleep(STEP_MS)) {
        // While the shard is away, nobody knows what became of a step: `judge` takes both.
        await this.#step(random).catch(() => {})
      }
    })()
    return async () => {
      running = false
      await selling
    }
  }

  /** What is wrong with its credits and its balance, given the calls of its shard. */
  async judge(calls: readonly CallRecord[]): Promise<string[]> {
    const { admin } = this.#scene.steady
    const { balance, held } = await this.#scene.steady.balance(this.account.id)
    const grants: Grant[] = []
    for (let after: string | null = ""; after !== null; ) {
      const query: string = after === "" ? "" : `&after=${encodeURIComponent(after)}`
      const page: { data: Grant[]; next: string | null } = await admin(
        "GET",
        `/accounts/${this.account.id}/credits?limit=100${query}`,
      )
      grants.push(...page.data)
      after = page.next
    }
    const found: string[] = []
    const said = `account ${this.account.id}`
    const sum = (field: "amount" | "left" | "expired" | "voided") =>
      grants.reduce((total, grant) => total + nanoOf(grant[field]), 0n)
    const charged_nano = calls
      .filter(({ account_id }) => account_id === this.account.id)
      .reduce((total, { charge_nano }) => total + (charge_nano ?? 0n), 0n)
    const spent_nano = sum("amount") - sum("left") - sum("expired") - sum("voided")
    if (spent_nano !== charged_nano)
      found.push(`${said} spent ${spent_nano} of its grants, and its calls cost ${charged_nano}`)
    if (nanoOf(balance) !== sum("left"))
      found.push(`${said} has ${balance}, and ${sum("left")} nano-USD are left of its grants`)
    if (nanoOf(held) !== 0n) found.push(`${said} holds ${held} for no call`)
    const listed = new Map(grants.map((grant) => [grant.id, grant]))
    if (listed.size !== grants.length) found.push(`${said} has a credit twice`)
    for (const id of this.#sure) if (!listed.has(id)) found.push(`credit ${id} is missing`)
    for (const grant of grants) {
      const { id, amount, left, expired, voided } = grant
      if (nanoOf(amount) !== this.#given.get(id)) found.push(`credit ${id} is not as it was given`)
      const parts_nano = [left, expired, voided].map(nanoOf)
      const gone_nano = parts_nano.reduce((total, part_nano) => total + part_nano, 0n)
      if (gone_nano > nanoOf(amount) || parts_nano.some((part_nano) => part_nano < 0n))
        found.push(`credit ${id} gave more than it had: ${Bun.inspect(grant)}`)
    }
    return found
  }

  async #step(random: Random): Promise<void> {
    const { admin } = this.#scene.steady
    const budget = random.pick(this.#budgets)
    const [all] = this.#budgets
    const last = [...this.#given.keys()].at(-1)
    const until = inFuture(random.whole(500, 3_000))
    const amount = `0.00${random.whole(1, 4)}`
    switch (random.pick(["grant", "grant", "grant", "reset", "reset", "raise", "void"])) {
      case "reset":
        return admin("POST", `/budgets/${budget}/reset`, {})
      case "raise":
        return admin("PATCH", `/budgets/${all}`, { raise: { amount: "150", until } })
      case "void":
        return this.#given.size > 1 ? admin("POST", `/credits/${last}/void`, {}) : undefined
      case "grant":
        return this.#credit({ amount, kind: "promotion", priority: 10, expires_at: until })
    }
  }

  async #credit(credit: { readonly amount: string; readonly [field: string]: unknown }): Promise<void> {
    const id = nextId()
    this.#given.set(id, nanoOf(credit.amount))
    await this.#scene.steady.admin("POST", `/accounts/${this.account.id}/credits`, { ...credit, id })
    this.#sure.add(id)
  }
}

const inFuture = (ms: number) => new Date(Date.now() + ms).toISOString()
