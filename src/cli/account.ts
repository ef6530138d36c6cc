import { parseId } from "../id.ts"
import { AccountBody } from "../wire/admin.ts"
import { Complaint } from "./complaint.ts"
import type { Desk } from "./desk.ts"
import { listAll } from "./list.ts"

/** How the argument that names an account is told. */
export const ACCOUNT = {
  type: "positional",
  required: true,
  description: "the account's id, or its name where no other has it",
} as const

/** The id of the account that is meant. A name is looked up among all: names need not differ, and money goes to no guess. */
export async function accountId(desk: Desk, word: string): Promise<string> {
  const id = parseId(word)
  if (id !== null) return id
  const { data } = await listAll(desk, "/accounts", {}, AccountBody, {
    limit: Number.POSITIVE_INFINITY,
    after: null,
  })
  const [found, ...others] = data.filter(({ name }) => name === word)
  if (found === undefined)
    throw new Complaint(`there is no account "${word}": "tollgate accounts" shows them`)
  if (others.length === 0) return found.id
  const ids = [found, ...others].map((account) => account.id).join(", ")
  throw new Complaint(`${others.length + 1} accounts are named "${word}"; say which by its id: ${ids}`)
}
