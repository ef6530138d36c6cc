import { cpus, release, totalmem } from "node:os"
import manifest from "../package.json" with { type: "json" }

function thisMachine() {
  const processors = cpus()
  return {
    processor: processors[0]?.model.trim() ?? "unknown",
    cores: processors.length,
    memory_gib: Math.round(totalmem() / 2 ** 30),
    system: `${process.platform} ${process.arch} ${release()}`,
    bun: Bun.version,
  }
}

/** What ran, where and when: the results of every kind of run begin with it. */
export interface RunFacts {
  readonly tollgate: string
  readonly machine: ReturnType<typeof thisMachine>
  readonly started_at: string
  readonly duration_s: number
}

/** The facts of a run that ends now. */
export function runFacts(started: Date): RunFacts {
  return {
    tollgate: manifest.version,
    machine: thisMachine(),
    started_at: started.toISOString(),
    duration_s: (Date.now() - started.getTime()) / 1000,
  }
}
