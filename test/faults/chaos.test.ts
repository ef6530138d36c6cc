import { expect, test } from "bun:test"
import { chaos } from "./chaos.ts"
import { Scene } from "./scene.ts"

/** `bun run chaos` says how long, with what, and from which seed; the suite has the short forms, from the same seed in each run. */
const { TOLLGATE_CHAOS_SEED, TOLLGATE_CHAOS_KILLS, TOLLGATE_CHAOS_GATEWAYS, TOLLGATE_CHAOS_SHARDS } =
  process.env
const seed = Number(TOLLGATE_CHAOS_SEED ?? 1)
const forms =
  TOLLGATE_CHAOS_KILLS === undefined
    ? [
        { kills: 3, gateways: 2, shards: 1 },
        { kills: 2, gateways: 2, shards: 2 },
      ]
    : [
        {
          kills: Number(TOLLGATE_CHAOS_KILLS),
          gateways: Number(TOLLGATE_CHAOS_GATEWAYS ?? 2),
          shards: Number(TOLLGATE_CHAOS_SHARDS ?? 1),
        },
      ]
const KILL_MS = 10_000

for (const { kills, gateways, shards } of forms) {
  test(
    `${kills} kills of ${gateways} gateways, shards: ${shards}, seed ${seed}: nothing is lost, nothing is charged twice`,
    async () => {
      const scene = await Scene.open(shards)
      const rounds: string[] = []
      const report = (line: string) => {
        rounds.push(line)
        if (TOLLGATE_CHAOS_KILLS !== undefined) console.log(line)
      }
      try {
        const { violations, ...counted } = await chaos(scene, { seed, kills, gateways, report })
        console.log(counted)
        const again = `--seed ${seed} --kills ${kills} --gateways ${gateways} --shards ${shards}`
        if (violations.length > 0) console.log(`chaos: again by ${again}\n${rounds.join("\n")}`)
        expect(violations).toEqual([])
      } finally {
        await scene.close()
      }
    },
    180_000 + kills * KILL_MS,
  )
}
