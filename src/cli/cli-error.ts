/** A failure, as one sentence for the user. Exit code 1. */
export class CliError extends Error {
  override readonly name: string = "CliError"
  readonly exit_code: number = 1
}

/** A change whose outcome is unknown, because no complete response arrived. */
export class UnknownOutcomeError extends CliError {
  override readonly name = "UnknownOutcomeError"
}

/** An invalid command line. Exit code 2. */
export class UsageError extends CliError {
  override readonly name = "UsageError"
  override readonly exit_code = 2
}
