import { systemReason } from "../system-reason.ts"

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

/** Runs a change that has a caller-made id. If the outcome is unknown, the error says how to retry without applying it twice. */
export async function withRetryHint<Answer>(id: string, change: () => Promise<Answer>): Promise<Answer> {
  try {
    return await change()
  } catch (error) {
    if (!(error instanceof UnknownOutcomeError)) throw error
    throw new UnknownOutcomeError(
      `${error.message} To retry safely, repeat the command with --id ${id}: it is applied only once.`,
    )
  }
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The result of `read`; if it throws, the reason after `before` is the failure of the command. */
export function orFail<Value>(read: () => Value, before = ""): Value {
  try {
    return read()
  } catch (error) {
    throw new CliError(`${before}${systemReason(error)}`)
  }
}
