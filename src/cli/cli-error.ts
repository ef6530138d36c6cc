/** What went wrong, as one sentence for whoever typed the command. Exit code 1. */
export class CliError extends Error {
  override readonly name: string = "CliError"
  readonly exit_code: number = 1
}

/** A change whose outcome is not known: nothing or no whole answer came back. */
export class UnknownOutcomeError extends CliError {
  override readonly name = "UnknownOutcomeError"
}

/** A command line that cannot be understood. Exit code 2. */
export class UsageError extends CliError {
  override readonly name = "UsageError"
  override readonly exit_code = 2
}
