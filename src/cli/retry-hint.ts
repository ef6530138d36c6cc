import { UnknownOutcomeError } from "./cli-error.ts"

/** A change under an id of the caller's: when its outcome is not known, what to say so that it is made once and not twice. */
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
