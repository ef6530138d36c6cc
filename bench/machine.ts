import { cpus, release, totalmem } from "node:os"

/** The machine of a run, without its name. */
export interface Machine {
  readonly processor: string
  readonly cores: number
  readonly memory_gib: number
  readonly system: string
  readonly bun: string
}

export function thisMachine(): Machine {
  const processors = cpus()
  return {
    processor: processors[0]?.model.trim() ?? "unknown",
    cores: processors.length,
    memory_gib: Math.round(totalmem() / 2 ** 30),
    system: `${process.platform} ${process.arch} ${release()}`,
    bun: Bun.version,
  }
}
