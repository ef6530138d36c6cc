import type { ScenarioResult } from "./results.ts"
import { percent } from "./table.ts"

/** The most CPU that the load generator may use, as a part of what its target uses. */
const MAX_LOAD_SHARE = 0.2
/** What the gateway is compared with: a light target makes every load generator heavy. */
const COMPARED: readonly string[] = ["direct", "bare"]

/** One sentence for each gateway beside which the load generator cost too much. */
export function loadWarnings(scenarios: readonly ScenarioResult[]): string[] {
  return scenarios.flatMap(({ title, sides }) =>
    Object.entries(sides)
      .filter(([name, { per }]) => per !== "pair" && !COMPARED.includes(name))
      .filter(([, { cpu }]) => cpu.load_share > MAX_LOAD_SHARE)
      .map(
        ([name, { cpu }]) =>
          `${title}, ${name}: the load generator used ${percent(cpu.load_share)} of the gateway's CPU, more than a fifth. Where they share cores, ratios of throughput are closer to 1 than they should be.`,
      ),
  )
}
