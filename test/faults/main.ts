import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { parseArgs } from "node:util"

/** The long form of chaos.test.ts. */

const USAGE = `bun run chaos        kills gateways at random under load, and audits the result
  --seed S           the same seed asks and breaks the same (a random one)
  --kills N          how many kills (1000)
  --gateways G       how many gateways run at a time (2)
  --shards D         how many shards; with two or more, shards are crashed too (1)`

const values = optionsOf()
if (values.help) {
  console.log(USAGE)
  process.exit(0)
}
if (!/^\d{1,10}$/.test(values.seed)) fail("--seed: expected a whole number")
for (const name of ["kills", "gateways", "shards"] as const)
  if (!/^[1-9]\d{0,9}$/.test(values[name])) fail(`--${name}: expected a whole number of at least 1`)
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

function optionsOf() {
  try {
    return parseArgs({
      options: {
        help: { type: "boolean", short: "h", default: false },
        seed: { type: "string", default: String(crypto.getRandomValues(new Uint32Array(1))[0]) },
        kills: { type: "string", default: "1000" },
        gateways: { type: "string", default: "2" },
        shards: { type: "string", default: "1" },
      },
    }).values
  } catch (error) {
    const [sentence = ""] = String(error instanceof Error ? error.message : error).split(". ")
    return fail(`${sentence}. See bun run chaos --help`)
  }
}

function fail(message: string): never {
  console.error(`chaos: ${message}`)
  process.exit(1)
}
