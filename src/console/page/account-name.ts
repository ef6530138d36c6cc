import type { AccountBody } from "../../wire/admin.ts"
import { addressOf, shortId } from "../address.ts"
import { el, named, setText } from "./element.ts"
import { ask } from "./gateway.ts"

/** Names as they were when they were first asked for; null where there is none to be had. */
const known = new Map<string, Promise<string | null>>()

/** A link to an account: by its id, and by its name as soon as that is known. */
export function accountLink(id: string): HTMLElement {
  const place = named(shortId(id))
  const name = known.get(id) ?? nameOf(id)
  known.set(id, name)
  void name.then((found) => {
    if (found !== null) setText(place, found)
  })
  return el("a", { href: addressOf("accounts", id), title: id }, place)
}

/** The account has another name now. */
export function noteName({ id, name }: AccountBody): void {
  known.set(id, Promise.resolve(name))
}

async function nameOf(id: string): Promise<string | null> {
  try {
    return (await ask<AccountBody>(`/accounts/${id}`)).name
  } catch {
    known.delete(id)
    return null
  }
}
