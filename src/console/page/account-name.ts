import type { AccountBody } from "../../wire/admin.ts"
import { addressOf, shortId } from "../address.ts"
import { el, named, setText } from "./element.ts"
import { ask } from "./gateway.ts"

/** Cached account names; null if a name cannot be loaded. */
const known = new Map<string, Promise<string | null>>()

/** A link to an account: its id, then its name when it has loaded. */
export function accountLink(id: string): HTMLElement {
  const place = named(shortId(id))
  const name = known.get(id) ?? nameOf(id)
  known.set(id, name)
  void name.then((found) => {
    if (found !== null) setText(place, found)
  })
  return el("a", { href: addressOf("accounts", id), title: id }, place)
}

/** Updates the cached name of an account. */
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
