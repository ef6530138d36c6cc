import type { RunFacts } from "../machine.ts"

/** When a run was, on what machine, and how long it took. */
export function factsOf(run: RunFacts, ...others: readonly string[]): string[] {
  const { processor, cores, memory_gib, system, bun } = run.machine
  return [
    `${run.started_at.slice(0, 16).replace("T", " ")} UTC`,
    `${processor}, ${cores} ${cores === 1 ? "core" : "cores"}, ${memory_gib} GiB`,
    system,
    `Bun ${bun}`,
    `Tollgate ${run.tollgate}`,
    `${Math.round(run.duration_s)} s`,
    ...others,
  ]
}
