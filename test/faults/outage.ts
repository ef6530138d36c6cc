import type { OneOrMore } from "../../src/wire/list.ts"
import { within } from "../support/fair-clock.ts"
import type { Plan } from "./author.ts"
import { type Conduct, call, type Seen } from "./customer.ts"
import type { Postgres } from "./postgres.ts"
import type { Random } from "./random.ts"
import type { SceneAccount, Victim } from "./scene.ts"

/** The server of one shard crashes and starts again (D74). */
export interface Outage {
  readonly server: Postgres
  /** The shard's place. */
  readonly shard: number
  readonly victims: OneOrMore<Victim>
  /** With money, in every shard. */
  readonly accounts: readonly SceneAccount[]
  readonly random: Random
  /** Gets what these calls saw. */
  readonly seen: Seen[]
  /** Kills a gateway, and starts it when this resolves: a start needs all shards. */
  restart(victim: Victim, until: () => Promise<void>): Promise<void>
}

/** From the start of the server until every gateway serves the accounts of its shard; those of others, from its crash. */
const SERVED_WITHIN_MS = 5_000

const PLAN: Plan = {
  operation: "chat",
  stream: false,
  words: [10],
  gap_ms: 0,
  usage: { prompt: 10, cached: 0, completion: 5 },
  fate: "whole",
}
const CONDUCT: Conduct = { plan: PLAN, leaves_after_bytes: null, leaves_by: "FIN" }

/**
 * Crashes the server amid the load. Each gateway must refuse the accounts of its shard, and serve all others. One gateway is
 * killed before the server starts again. Resolves, once all is served, with what may not be.
 */
export async function outage({
  server,
  shard,
  victims,
  accounts,
  random,
  seen,
  restart,
}: Outage): Promise<string[]> {
  const found: string[] = []
  const answerOf = async (victim: Victim, { key }: SceneAccount) => {
    const answer = await call(victim, key, CONDUCT)
    if (answer !== null) seen.push(answer)
    return answer
  }
  const refused = ({ gateway }: Victim, which: number, answer: Seen | null, account: SceneAccount) => {
    const why = gateway.printed.split("\n").findLast((line) => line.includes(answer?.id ?? "no id"))
    return `gateway ${which} answered ${answer?.status}, ${answer?.refusal}, ${why}, for shard ${account.shard}`
  }
  /** A busy machine may keep a call from the database for as long as it waits, and so may others that wait for it. */
  const serves = async (victim: Victim, which: number, account: SceneAccount) => {
    let is_late = false
    const last = async () => {
      for (;;) {
        const answer = await answerOf(victim, account)
        if (answer?.status === 200 || is_late) return answer
        await Bun.sleep(50)
      }
    }
    const serving = last()
    is_late = !(await within(SERVED_WITHIN_MS, serving))
    const answer = await serving
    if (is_late) found.push(`${refused(victim, which, answer, account)} for ${SERVED_WITHIN_MS} ms`)
  }
  const asked = victims.flatMap((victim, which) => accounts.map((account) => ({ victim, which, account })))

  await server.crash()
  await Bun.sleep(random.whole(0, 500))
  await Promise.all(
    asked.map(async ({ victim, which, account }) => {
      if (account.shard !== shard) return serves(victim, which, account)
      const answer = await answerOf(victim, account)
      if (answer?.status !== 503) found.push(`${refused(victim, which, answer, account)}, which was away`)
    }),
  )

  await restart(random.pick(victims), () => server.start())
  await Promise.all(asked.map(({ victim, which, account }) => serves(victim, which, account)))
  return found
}
