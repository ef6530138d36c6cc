import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { parseArgs } from "node:util"

/** `bun run chaos`, the long form of chaos.test.ts: so many kills of so many gateways at a time over so many shards. */
const { values } = parseArgs({
  options: {
    /** The same seed asks and breaks the same. */
    seed: { type: "string", default: String(crypto.getRandomValues(new Uint32Array(1))[0]) },
    kills: { type: "string", default: "1000" },
    gateways: { type: "string", default: "2" },
    /** With two or more, shards are crashed too. */
    shards: { type: "string", default: "1" },
  },
})
const env = { ...process.env }
for (const [name, value] of Object.entries(values)) {
  if (!/^[1-9]\d{0,9}$/.test(value)) throw new Error(`--${name}: expected a whole number of at least 1`)
  env[`TOLLGATE_CHAOS_${name.toUpperCase()}`] = value
}
const { status } = spawnSync(
  process.execPath,
  [join(import.meta.dir, "../run.ts"), join(import.meta.dir, "chaos.test.ts")],
  { env, stdio: "inherit" },
)
process.exit(status ?? 1)
