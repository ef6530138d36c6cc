import { UnknownOutcomeError } from "./cli-error.ts"

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
