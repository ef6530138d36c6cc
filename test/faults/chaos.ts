import { spyOn } from "bun:test"
import { SinkQueue } from "../../src/ledger/feed/sinks.ts"
import { oneOrMore } from "../../src/wire/list.ts"
import { within } from "../support/fair-clock.ts"
import { PRICE, PROVIDER_KEY, until } from "../support/gateway.ts"
import { ADMIN_TOKEN, operatorOf } from "../support/operator.ts"
import { Author, CANARY, draw } from "./author.ts"
import { type Conduct, call, type Seen } from "./customer.ts"
import { EventReceiver } from "./event-receiver.ts"
import { FAULTS, type Fault, mend, PASSING } from "./fault.ts"
import { judge, judgeBalance } from "./judge.ts"
import { outage } from "./outage.ts"
import { Random } from "./random.ts"
import type { Scene, SceneAccount, Victim } from "./scene.ts"
import { Seller } from "./seller.ts"
import { atRest, kept, TELLING } from "./vitals.ts"
import { fault as faultOf, type Story } from "./witness.ts"

export interface ChaosOptions {
  readonly seed: number
  readonly kills: number
  readonly gateways: number
  /** Told of each fault as it begins. */
  report(line: string): void
}

export interface ChaosResult {
  readonly calls: number
  /** How often calls went which way. */
  readonly lives: Readonly<Record<string, number>>
  /** How often the server of a shard crashed. */
  readonly outages: number
  readonly slowest_start_ms: number
  /** Calls that a budget refused. */
  readonly over_budget: number
  /** Events that the sink got, those that it got again, and how often it failed. */
  readonly events: Readonly<Record<string, number>>
  /** What may not be; nothing, if all is well. */
  readonly violations: readonly string[]
}

const CUSTOMERS = 8
/** How long a client waits that was not served. */
const REFUSED_MS = 20
/** What the accounts of each shard have. The last one is poor: most of its calls are refused. */
const ACCOUNTS_USD = ["100", "100", "0.02"]
/** From a kill, or once every shard is back, until the next process serves, but for the time in which the machine let others run. */
const SERVING_WITHIN_MS = 2_000
/** The same in the suite, whose other processes keep both cores busy. */
const SERVING_AMID_TESTS_MS = 6_000
/** After how many kills, at most, the server of a shard crashes. */
const KILLS_PER_OUTAGE = 25
/** At most so many kills are the suite's own, short run. */
const SHORT_KILLS = 20
/** From the end of all calls until the sink has every event; after a failure it pauses for 5 s. */
const DELIVERED_WITHIN_MS = 60_000
/** How long each fault of the storms lasts. */
const STORM_MS = 150
/** A provider that hangs is given up before a client is bored. */
const TIMEOUTS = { first_byte: "2s", idle: "2s", total: "5s" }

/**
 * Load on some gateways while everything around them fails and they are killed; then the records of all three sides are laid
 * beside each other. The seed decides who asks for what, and which fault happens to whom and when.
 */
export async function chaos(
  scene: Scene,
  { seed, kills, gateways, report }: ChaosOptions,
): Promise<ChaosResult> {
  const random = new Random(seed)
  const author = new Author()
  scene.provider.reply(author.script)
  const victims = oneOrMore(
    await Promise.all(Array.from({ length: gateways }, () => scene.victim(configuration, TELLING))),
  )
  // The steady gateway would keep the sink for good, and no kill would meet a delivery.
  using _ = spyOn(SinkQueue.prototype, "claim").mockResolvedValue([])
  // A sink gets every event from its creation on.
  const receiver = await EventReceiver.open(random.branch(), kills > SHORT_KILLS)
  await scene.steady.admin("POST", "/sinks", { name: "chaos", url: receiver.url, allow_private: true })
  const accounts: SceneAccount[] = []
  for (const place of scene.shards.keys())
    for (const usd of ACCOUNTS_USD) accounts.push(await scene.account(usd, place))
  const sellers = await Promise.all([...scene.shards.keys()].map((place) => Seller.open(scene, place)))
  const keys = [...accounts, ...sellers.map(({ account }) => account)].map(({ key }) => key)

  const seen: Seen[] = []
  const load = () => crowd(random, victims, keys, seen)
  let stop = load()
  const stopSelling = sellers.map((seller) => seller.sell(random.branch()))
  let slowest_start_ms = 0
  let round = 0
  /** Kills a gateway, and starts it when `until` resolves. */
  const restart = async (victim: Victim, said: string, until: () => Promise<void> | void) => {
    await victim.kill()
    mend(victim)
    await until()
    const began_ms = performance.now()
    await victim.start()
    const start_ms = performance.now() - began_ms - victim.gateway.waited_ms
    report(`${said}: serving again after ${Math.round(start_ms)} ms`)
    slowest_start_ms = Math.max(slowest_start_ms, start_ms)
  }
  /** Kills one of the gateways again and again, each time amid another fault. */
  const hunter = (victim: Victim, own: Random) => {
    let due: Fault[] = []
    return async (times: number) => {
      for (let time = 0; time < times; time++) {
        if (due.length === 0) due = own.shuffle(FAULTS)
        const { name, begin } = due.pop() ?? FAULTS[0]
        const before_ms = own.whole(0, 200)
        const during_ms = own.whole(0, 800)
        await Bun.sleep(before_ms)
        round += 1
        const said = `${round}/${kills} gateway ${victims.indexOf(victim)}`
        report(`${said}: ${name} for ${during_ms} ms`)
        await begin(victim, own)
        await Bun.sleep(during_ms)
        await restart(victim, said, () => {})
      }
    }
  }
  const hunts = victims.map((victim) => hunter(victim, random.branch()))
  const crashing = scene.shards.flatMap(({ name, server }, shard) =>
    server === null ? [] : [{ name, server, shard }],
  )
  const violations: string[] = []
  let outages = 0
  try {
    // A start needs all shards, so a server crashes only between two parts of the hunt.
    const part = crashing.length === 0 ? kills : KILLS_PER_OUTAGE
    for (let done = 0; done < kills; done += part) {
      const times = (which: number) => Math.floor((Math.min(part, kills - done) + which) / gateways)
      await Promise.all(hunts.map((hunt, which) => hunt(times(which))))
      for (const { name, server, shard } of crashing) {
        outages += 1
        const said = `outage ${outages}`
        report(`${said}: the server of ${name} crashes, and a gateway is killed meanwhile`)
        const rich = accounts.filter(({ usd }) => usd === ACCOUNTS_USD[0])
        const again = (victim: Victim, until: () => Promise<void>) => restart(victim, said, until)
        const asking = { victims, accounts: rich, random, seen, restart: again }
        violations.push(...(await outage({ server, shard, ...asking })))
      }
    }
  } finally {
    await stop()
    await Promise.all(stopSelling.map((stopOne) => stopOne()))
  }
  await scene.quiet()
  // A failure delays the sink by up to 20 s: 15 for the answer, and 5 before the retry.
  receiver.mend()
  // A gateway that delivers is not at rest.
  violations.push(...(await undelivered(scene, receiver)))

  const storm = async () => {
    report("a storm without a kill")
    stop = load()
    for (const { begin } of random.shuffle(PASSING)) {
      for (const victim of victims) await begin(victim, random)
      await Bun.sleep(STORM_MS)
      victims.forEach(mend)
    }
    await stop()
    // Connections are kept to be used again, as many as a busy moment took: those that rest needs are made anew.
    victims.forEach(mend)
  }
  await storm()
  const rests = await Promise.all(victims.map(async (victim) => ({ victim, rest: await atRest(victim) })))
  await storm()
  const vitals = await Promise.all(rests.map(({ victim, rest }) => kept(victim, rest, () => mend(victim))))
  await scene.quiet()

  violations.push(...(await inquire(scene, author, seen, accounts, sellers)))
  violations.push(...(await undelivered(scene, receiver)))
  receiver.stop()
  if (slowest_start_ms > (kills > SHORT_KILLS ? SERVING_WITHIN_MS : SERVING_AMID_TESTS_MS))
    violations.push(`a start took ${slowest_start_ms} ms`)
  violations.push(...vitals.flatMap((what) => (what === null ? [] : [`a gateway kept ${what}`])))
  const lives: Record<string, number> = {}
  for (const { steps } of await storiesOf(scene)) {
    const last = steps.at(-1) ?? ""
    lives[last] = (lives[last] ?? 0) + 1
  }
  const over_budget = seen.filter(({ refusal }) => refusal.includes("budget_reached")).length
  const times = [...receiver.taken.values()]
  const again = times.reduce((sum, taken) => sum + taken - 1, 0)
  const events = { taken: times.length, again, ...receiver.failures }
  return { calls: seen.length, lives, outages, slowest_start_ms, over_budget, events, violations }
}

/** Clients that ask for one thing after another, until the function returned is called: it resolves once they are gone. */
function crowd(
  random: Random,
  victims: readonly Victim[],
  keys: readonly string[],
  seen: Seen[],
): () => Promise<void> {
  let running = true
  const customers = Array.from({ length: CUSTOMERS }, async () => {
    const own = random.branch()
    while (running) {
      const { gateway, key, conduct } = errand(own, victims, keys)
      if (gateway === null) await Bun.sleep(REFUSED_MS)
      else {
        const answer = await call({ url: gateway }, key, conduct)
        if (answer !== null) seen.push(answer)
        if (answer?.status !== 200) await Bun.sleep(REFUSED_MS)
      }
    }
  })
  return async () => {
    running = false
    await Promise.all(customers)
  }
}

function configuration(url: string) {
  const first = { family: "chat", base_url: `${url}/v1`, api_key: PROVIDER_KEY, timeouts: TIMEOUTS }
  const model = {
    name: "chat-model",
    family: "chat",
    upstreams: [{ use: "first", model: "upstream-model" }],
    price: PRICE,
    max_output_tokens: 1000,
  }
  return { upstreams: { first }, models: [model], shutdown: { drain: "500ms" } }
}

function errand(random: Random, victims: readonly Victim[], keys: readonly string[]) {
  const gateway = victims[random.whole(0, victims.length - 1)]
  const key = keys[random.whole(0, keys.length - 1)] ?? ""
  const conduct: Conduct = {
    plan: draw(random),
    leaves_after_bytes: random.chance(0.2) ? random.whole(0, 2_000) : null,
    leaves_by: random.pick(["FIN", "RST"]),
  }
  return { gateway: gateway?.listening ?? null, key, conduct }
}

/** Lays the three sides beside each other. */
async function inquire(
  scene: Scene,
  author: Author,
  seen: readonly Seen[],
  accounts: readonly SceneAccount[],
  sellers: readonly Seller[],
): Promise<string[]> {
  const { open_holds, violations } = await scene.steady.audit()
  const clients = new Map(seen.flatMap((answer) => (answer.id === null ? [] : [[answer.id, answer]])))
  const stories = await storiesOf(scene)
  const told = new Set(stories.map(({ id }) => id))
  const found: string[] = []
  for (const [place, { witness }] of scene.shards.entries()) {
    const calls = await witness.calls()
    for (const call of calls)
      for (const what of judge(call, author.said.get(call.id), clients.get(call.id)))
        found.push(`call ${call.id} (${call.state}, ${call.basis}, ${call.charge_nano}) ${what}`)
    for (const account of accounts.filter(({ shard }) => shard === place))
      found.push(...judgeBalance(account, await scene.steady.balance(account.id), calls))
    for (const seller of sellers.filter(({ account: { shard } }) => shard === place))
      found.push(...(await seller.judge(calls)))
    found.push(...(await witness.overdrawn()).map((account) => `account ${account} was overdrawn`))
    found.push(...(await witness.exceeded()).map((budget) => `a hold exceeded budget ${budget}`))
  }
  found.push(...stories.map(faultOf).filter((what) => what !== null))
  found.push(...violations.map((violation) => `audit: ${Bun.inspect(violation)}`))
  if (open_holds > 0) found.push(`${open_holds} holds are open`)
  found.push(...author.repeated.map((id) => `call ${id} reached the provider more than once`))
  for (const id of author.said.keys())
    if (!told.has(id)) found.push(`call ${id} reached the provider without a hold`)
  for (const { status, id } of seen) {
    if (status === 200 && (id === null || !told.has(id))) found.push(`an answer ${id} is not in the ledger`)
    if (status !== null && ![200, 402, 429, 500, 502, 503, 504].includes(status))
      found.push(`an answer was ${status}`)
  }
  const keys = accounts.map(({ key }) => key)
  found.push(...(await leaks(scene, seen, keys)))
  return found
}

/** Waits for the sink to get what it has not got; then how much it did not get, and its state. */
async function undelivered({ shards }: Scene, receiver: EventReceiver): Promise<string[]> {
  const ids = (await Promise.all(shards.map(({ witness }) => witness.events()))).flat()
  const missing = () => ids.filter((id) => !receiver.taken.has(id))
  let is_late = false
  const delivered = until(missing, ({ length }) => length === 0 || is_late)
  is_late = !(await within(DELIVERED_WITHIN_MS, delivered))
  await delivered
  const [first, ...others] = missing()
  if (first === undefined) return []
  const sinks = await Promise.all(shards.map(({ witness }) => witness.sinks()))
  return [`event ${first} and ${others.length} others were not delivered: ${sinks.join()}`]
}

/** Of all shards: a call that is in two of them has two stories. */
async function storiesOf({ shards }: Scene): Promise<Story[]> {
  return (await Promise.all(shards.map(({ witness }) => witness.stories()))).flat()
}

/** What must be nowhere but in requests and answers. */
async function leaks({ victims, steady }: Scene, seen: readonly Seen[], keys: readonly string[]) {
  const secrets: Record<string, string> = { CANARY, PROVIDER_KEY, ADMIN_TOKEN }
  for (const [at, key] of keys.entries()) secrets[`key ${at}`] = key
  const logs = victims.map((victim) => victim.everPrinted).join("\n") + steady.lines.join("\n")
  const pages = await Promise.all([steady, ...victims].map(({ url }) => operatorOf(url).metrics()))
  const metrics = pages.join("\n")
  const errors = seen.map(({ refusal }) => refusal).join("\n")
  return Object.entries(secrets).flatMap(([name, secret]) => [
    ...(logs.includes(secret) ? [`${name} is in a log`] : []),
    ...(metrics.includes(secret) ? [`${name} is in the metrics`] : []),
    ...(errors.includes(secret) ? [`${name} is in an error`] : []),
  ])
}
