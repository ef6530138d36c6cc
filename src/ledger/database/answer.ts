import { DrizzleQueryError } from "drizzle-orm/errors"
import { NoAnswer } from "../entries.ts"
import { errorCode } from "./database-errors.ts"
import { withDeadline } from "./deadline.ts"

/** SQLSTATE classes of faults in a statement or its values: data, constraints, schemas, syntax, access. */
const DEFECTS = ["21", "22", "23", "3F", "42"]

/** Waits at most `deadline_ms`, if not null. `NoAnswer` has the `id` of what may have been made, and the shard. */
export async function answerOf<Answer>(
  question: Promise<Answer>,
  deadline_ms: number | null,
  about: { readonly id?: string | undefined; readonly shard?: string } = {},
): Promise<Answer> {
  const late = () => {
    throw new NoAnswer("deadline", about)
  }
  try {
    return await (deadline_ms === null ? question : withDeadline(question, deadline_ms, late))
  } catch (error) {
    // Drizzle's message repeats the parameters; only the driver's error may reach a log.
    const cause = error instanceof DrizzleQueryError ? error.cause : error
    if (error === cause && !hasCode(error)) throw error
    throw isDefect(cause) ? cause : new NoAnswer(errorCode(cause), about)
  }
}

/** True for an error of the database driver, which has a code of the server or the system. */
function hasCode(error: unknown): error is Error & { readonly code: unknown } {
  return error instanceof Error && "code" in error
}

function isDefect(cause: unknown): boolean {
  const code = hasCode(cause) ? cause.code : undefined
  return typeof code === "string" && code.length === 5 && DEFECTS.includes(code.slice(0, 2))
}
