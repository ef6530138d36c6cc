import { expect, test } from "bun:test"
import { chaos } from "./chaos.ts"
import { Scene } from "./scene.ts"

/** `bun run chaos` says how long, and from which seed; the suite has the short form. */
const { TOLLGATE_CHAOS_SEED, TOLLGATE_CHAOS_KILLS } = process.env
const seed = Number(TOLLGATE_CHAOS_SEED ?? crypto.getRandomValues(new Uint32Array(1))[0])
const kills = Number(TOLLGATE_CHAOS_KILLS ?? 20)
const KILL_MS = 10_000

test(
  `${kills} kills among other faults, seed ${seed}: nothing is lost, nothing is charged twice`,
  async () => {
    const scene = await Scene.open()
    const rounds: string[] = []
    const report = (line: string) => {
      rounds.push(line)
      if (TOLLGATE_CHAOS_KILLS !== undefined) console.log(line)
    }
    try {
      const { violations, ...counted } = await chaos(scene, { seed, kills, report })
      console.log(counted)
      if (violations.length > 0)
        console.log(`chaos: again by --seed ${seed} --kills ${kills}\n${rounds.join("\n")}`)
      expect(violations).toEqual([])
    } finally {
      await scene.close()
    }
  },
  60_000 + kills * KILL_MS,
)
