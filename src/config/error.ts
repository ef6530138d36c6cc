import type { Fault } from "../wire/fault.ts"

/** A configuration that cannot be used: one line for each fault, `path.of.key: what was expected`. Stops the start. */
export class ConfigError extends Error {
  override readonly name = "ConfigError"
  readonly faults: readonly Fault[]

  constructor(faults: readonly Fault[]) {
    super(faults.map(({ path, expected }) => `${path || "the file"}: expected ${expected}`).join("\n"))
    this.faults = faults
  }

  /** The same faults, said to be those of the file at `path`. */
  in(path: string): ConfigError {
    return new ConfigError(
      this.faults.map((fault) => ({ ...fault, path: fault.path === "" ? path : `${path}: ${fault.path}` })),
    )
  }
}
