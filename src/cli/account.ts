import { parseId } from "../id.ts"
import { AccountBody } from "../wire/admin.ts"
import type { AdminContext } from "./admin-command.ts"
import { CliError } from "./cli-error.ts"
import { listAll } from "./list.ts"

/** The argument that names an account. */
export const ACCOUNT = {
  type: "positional",
  required: true,
  description: "the id of the account, or its name if the name is unique",
} as const

/** The id of the account that `word` names. Names need not be unique, so an ambiguous name is an error: a guess could credit the wrong account. */
export async function accountId(context: AdminContext, word: string): Promise<string> {
  const id = parseId(word)
  if (id !== null) return id
  const { data } = await listAll(context, "/accounts", {}, AccountBody, {
    limit: Number.POSITIVE_INFINITY,
    after: null,
  })
  const [found, ...others] = data.filter(({ name }) => name === word)
  if (found === undefined)
    throw new CliError(`no account is named "${word}": "tollgate accounts" lists all accounts`)
  if (others.length === 0) return found.id
  const ids = [found, ...others].map((account) => account.id).join(", ")
  throw new CliError(`${others.length + 1} accounts are named "${word}": use the id of one of them: ${ids}`)
}
