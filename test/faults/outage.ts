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

/** From the start of the server until every gateway serves the accounts of its shard. */
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
  const asked = victims.flatMap((victim, which) => accounts.map((account) => ({ victim, which, account })))

  await server.crash()
  await Bun.sleep(random.whole(0, 500))
  await Promise.all(
    asked.map(async ({ victim, which, account }) => {
      const asked_ms = performance.now()
      const answer = await answerOf(victim, account)
      if (answer?.status === (account.shard === shard ? 503 : 200)) return
      const why = victim.gateway.printed.split("\n").findLast((line) => line.includes(answer?.id ?? "no id"))
      const said = `${answer?.status} after ${performance.now() - asked_ms} ms, ${answer?.refusal}, ${why},`
      found.push(`gateway ${which} answered ${said} for shard ${account.shard} while shard ${shard} was away`)
    }),
  )

  await restart(random.pick(victims), () => server.start())
  await Promise.all(
    asked.map(async ({ victim, which, account }) => {
      let is_late = false
      const served = async () => {
        while (!is_late && (await answerOf(victim, account))?.status !== 200) await Bun.sleep(50)
      }
      const serving = served()
      is_late = !(await within(SERVED_WITHIN_MS, serving))
      await serving
      if (is_late) found.push(`gateway ${which} does not serve shard ${account.shard} again`)
    }),
  )
  return found
}
