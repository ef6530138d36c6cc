import { endLean, endOne } from "../../src/ledger/journal/end.ts"
import { endExact } from "../../src/ledger/journal/end-exact.ts"
import { holdLean, holdOne } from "../../src/ledger/journal/hold.ts"
import { holdExact } from "../../src/ledger/journal/hold-exact.ts"
import { PRICE, PROVIDER_KEY } from "../support/gateway.ts"
import { FAIR } from "../support/link.ts"
import { ADMIN_TOKEN } from "../support/operator.ts"
import { Author, CANARY, draw } from "./author.ts"
import { type Conduct, call, type Seen } from "./customer.ts"
import { judge } from "./judge.ts"
import { Random } from "./random.ts"
import type { Scene, Victim } from "./scene.ts"
import { atRest, kept, TELLING } from "./vitals.ts"
import { CHECKPOINT, fault as faultOf } from "./witness.ts"

export interface ChaosOptions {
  readonly seed: number
  readonly kills: number
  /** Told of each fault as it begins. */
  report(line: string): void
}

export interface ChaosResult {
  readonly calls: number
  /** How often calls went which way. */
  readonly lives: Readonly<Record<string, number>>
  readonly slowest_start_ms: number
  /** What may not be; nothing, if all is well. */
  readonly violations: readonly string[]
}

/** The two gateways that faults happen to, how many clients they have, and how many accounts. */
const VICTIMS = 2
const CUSTOMERS = 8
/** The last one is poor: most of its calls are refused. */
const ACCOUNTS_USD = ["100", "100", "0.02"]
/** From a kill until the next process serves, but for the time in which the machine let others run. */
const SERVING_WITHIN_MS = 2_000
/** How long each fault of the storms lasts. */
const STORM_MS = 150
/** A provider that hangs is given up before a client is bored. */
const TIMEOUTS = { first_byte: "2s", idle: "2s", total: "5s" }

/**
 * Load on two gateways while everything around them fails and they are killed; then the records of all three sides are laid
 * beside each other. The seed decides who asks for what, and which fault happens to whom and when.
 */
export async function chaos(scene: Scene, { seed, kills, report }: ChaosOptions): Promise<ChaosResult> {
  const random = new Random(seed)
  const author = new Author()
  scene.provider.reply(author.script)
  const victims = await Promise.all(
    Array.from({ length: VICTIMS }, () => scene.victim(configuration, null, TELLING)),
  )
  const keys: string[] = []
  for (const usd of ACCOUNTS_USD) keys.push((await scene.steady.account(usd)).key)

  const seen: Seen[] = []
  const load = () => crowd(random, victims, keys, seen)
  let stop = load()
  let slowest_start_ms = 0
  let round = 0
  /** Kills one of the gateways again and again, each time amid another fault. */
  const hunt = async (victim: Victim, own: Random, times: number) => {
    let due: Fault[] = []
    for (let time = 0; time < times; time++) {
      if (due.length === 0) due = own.shuffle(FAULTS)
      const { name, begin } = due.pop() ?? FAULTS[0]
      const before_ms = own.whole(0, 400)
      const during_ms = own.whole(0, 800)
      await Bun.sleep(before_ms)
      round += 1
      const said = `${round}/${kills} gateway ${victims.indexOf(victim)}`
      report(`${said}: ${name} for ${during_ms} ms`)
      await begin(victim, own)
      await Bun.sleep(during_ms)
      await victim.kill()
      mend(victim)
      const killed_ms = performance.now()
      await victim.start()
      const start_ms = performance.now() - killed_ms - victim.gateway.waited_ms
      report(`${said}: serving again after ${Math.round(start_ms)} ms`)
      slowest_start_ms = Math.max(slowest_start_ms, start_ms)
    }
  }
  try {
    const times = (which: number) => Math.floor((kills + which) / VICTIMS)
    await Promise.all(victims.map((victim, which) => hunt(victim, random.branch(), times(which))))
  } finally {
    await stop()
  }
  await scene.quiet()

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
  const vitals = await Promise.all(rests.map(({ victim, rest }) => kept(victim, rest)))
  await scene.quiet()

  const violations = await inquire(scene, author, seen, keys)
  if (slowest_start_ms > SERVING_WITHIN_MS) violations.push(`a start took ${slowest_start_ms} ms`)
  violations.push(...vitals.flatMap((what) => (what === null ? [] : [`a gateway kept ${what}`])))
  const lives: Record<string, number> = {}
  for (const { steps } of await scene.witness.stories()) {
    const last = steps.at(-1) ?? ""
    lives[last] = (lives[last] ?? 0) + 1
  }
  return { calls: seen.length, lives, slowest_start_ms, violations }
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
      if (gateway === null) await Bun.sleep(20)
      else {
        const answer = await call({ url: gateway }, key, conduct)
        if (answer !== null) seen.push(answer)
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

interface Fault {
  readonly name: string
  begin(victim: Victim, random: Random): Promise<void> | void
}

/** Those that a gateway outlives. */
const PASSING: readonly Fault[] = [
  { name: "the database is gone", begin: ({ database }) => database.refuse() },
  { name: "the way to the database is cut", begin: ({ database }) => database.cut() },
  { name: "the database is black-holed", begin: ({ database }) => database.stall() },
  {
    name: "the database is slow",
    begin({ database }, random) {
      database.weather = { ...FAIR, delay_ms: random.whole(50, 200) }
    },
  },
  {
    name: "replies of the database are lost",
    begin({ database }, random) {
      const statements = [holdOne, holdLean, holdExact, endOne, endLean, endExact, CHECKPOINT]
      for (const statement of statements) if (random.chance(0.7)) void database.loseReply(statement)
    },
  },
  {
    name: "the provider's connections are reset",
    begin: ({ upstream }) => upstream.reset(),
  },
  { name: "the provider is black-holed", begin: ({ upstream }) => upstream.stall() },
  {
    name: "the provider drips",
    begin({ upstream }, random) {
      upstream.weather = { delay_ms: 5, bytes_per_s: 20_000, slice_bytes: random.whole(1, 50) }
    },
  },
]

/** Each ends with a kill; until then it is mended by nobody. */
const FAULTS: readonly [Fault, ...Fault[]] = [
  { name: "nothing else", begin() {} },
  ...PASSING,
  {
    name: "it is frozen past its lease and woken",
    async begin({ gateway }) {
      gateway.signal("SIGSTOP")
      await Bun.sleep(2_500)
      gateway.signal("SIGCONT")
    },
  },
  {
    name: "it crashes in a loop",
    async begin(victim, random) {
      for (let crash = 0; crash < 3; crash++) {
        await victim.kill()
        victim.spawn()
        await Bun.sleep(random.whole(0, 400))
      }
    },
  },
  { name: "it drains", begin: ({ gateway }) => gateway.signal("SIGTERM") },
  {
    name: "it drains while the database is gone",
    begin({ gateway, database }) {
      database.refuse()
      gateway.signal("SIGTERM")
    },
  },
]

function mend({ database, upstream }: Victim): void {
  database.admit()
  database.heal()
  upstream.heal()
}

/** Lays the three sides beside each other. */
async function inquire(
  scene: Scene,
  author: Author,
  seen: readonly Seen[],
  keys: readonly string[],
): Promise<string[]> {
  const { open_holds, violations } = await scene.steady.audit()
  const calls = await scene.witness.calls()
  const clients = new Map(seen.flatMap((answer) => (answer.id === null ? [] : [[answer.id, answer]])))
  const stories = await scene.witness.stories()
  const told = new Set(stories.map(({ id }) => id))
  const found = calls.flatMap((call) =>
    judge(call, author.said.get(call.id), clients.get(call.id)).map(
      (what) => `call ${call.id} (${call.state}, ${call.basis}, ${call.charge_nano}) ${what}`,
    ),
  )
  found.push(...stories.map(faultOf).filter((what) => what !== null))
  found.push(...(await scene.witness.overdrawn()).map((account) => `account ${account} was overdrawn`))
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
  found.push(...(await leaks(scene, seen, keys)))
  return found
}

/** What must be nowhere but in requests and answers. */
async function leaks(
  { victims, steady }: Scene,
  seen: readonly Seen[],
  keys: readonly string[],
): Promise<string[]> {
  const secrets: Record<string, string> = { CANARY, PROVIDER_KEY, ADMIN_TOKEN }
  for (const [at, key] of keys.entries()) secrets[`key ${at}`] = key
  const logs = victims.map((victim) => victim.everPrinted).join("\n") + steady.lines.join("\n")
  const pages = await Promise.all(
    [steady, ...victims].map(async ({ url }) => (await fetch(`${url}/metrics`)).text()),
  )
  const metrics = pages.join("\n")
  const errors = seen.map(({ refusal }) => refusal).join("\n")
  return Object.entries(secrets).flatMap(([name, secret]) => [
    ...(logs.includes(secret) ? [`${name} is in a log`] : []),
    ...(metrics.includes(secret) ? [`${name} is in the metrics`] : []),
    ...(errors.includes(secret) ? [`${name} is in an error`] : []),
  ])
}
