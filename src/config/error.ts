import type { Fault } from "../wire/fault.ts"

/** An invalid configuration: one line per error, `path.of.key: expected …`. The gateway does not start. */
export class ConfigError extends Error {
  override readonly name = "ConfigError"
  readonly faults: readonly Fault[]

  constructor(faults: readonly Fault[]) {
    super(faults.map(({ path, expected }) => `${path || "the file"}: expected ${expected}`).join("\n"))
    this.faults = faults
  }

  /** The same errors, prefixed with the path of the file. */
  in(path: string): ConfigError {
    return new ConfigError(
      this.faults.map((fault) => ({ ...fault, path: fault.path === "" ? path : `${path}: ${fault.path}` })),
    )
  }
}
