import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { parseArgs } from "node:util"

/**
 * `bun run chaos --seed S --kills N --gateways G --shards D`: the long form of chaos.test.ts. The same seed asks and breaks the
 * same.
 */

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(crypto.getRandomValues(new Uint32Array(1))[0]) },
    kills: { type: "string", default: "1000" },
    gateways: { type: "string", default: "2" },
    shards: { type: "string", default: "1" },
  },
})
for (const [name, value] of Object.entries(values)) {
  if (!/^\d{1,10}$/.test(value)) fail(`--${name}: expected a whole number`)
}
for (const name of ["gateways", "shards"] as const)
  if (Number(values[name]) < 1) fail(`--${name}: expected at least 1`)
const { status } = spawnSync(
  process.execPath,
  [join(import.meta.dir, "../run.ts"), join(import.meta.dir, "chaos.test.ts")],
  {
    env: {
      ...process.env,
      TOLLGATE_CHAOS_SEED: values.seed,
      TOLLGATE_CHAOS_KILLS: values.kills,
      TOLLGATE_CHAOS_GATEWAYS: values.gateways,
      TOLLGATE_CHAOS_SHARDS: values.shards,
    },
    stdio: "inherit",
  },
)
process.exit(status ?? 1)

function fail(message: string): never {
  console.error(`chaos: ${message}`)
  process.exit(1)
}
