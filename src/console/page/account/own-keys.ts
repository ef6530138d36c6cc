import { type CreatedKeyBody, KeyBody } from "../../../wire/admin.ts"
import { keyState } from "../../../wire/key-state.ts"
import type { OwnAccount } from "../../../wire/receipt.ts"
import type { ListBody } from "../admin-api.ts"
import { button, type Child, el, named } from "../element.ts"
import { rowActions } from "../form.ts"
import { ago, brief, none } from "../formats.ts"
import type { ViewPart, Visit } from "../part.ts"
import { columnsOf, list } from "../table.ts"
import { limitOf, openKeyDialog, revocation, rotation, stateOf } from "../views/keys.ts"
import { askOwn, forgetKey, tellOwn, useKey } from "./own-api.ts"

/** The keys of the account. Where the operator allows it, they can be made, rotated and revoked (D104). */
export function ownKeys(visit: Visit, account: Promise<OwnAccount>): ViewPart {
  const reload = () => void made.load()
  /** The id of the key that the page uses; null if keys cannot be changed. */
  let current: string | null = null
  const column = columnsOf(KeyBody)
  const tools = el("div.actions")
  const made = list(visit, {
    title: "Keys",
    tools,
    columns: [
      column("name", ({ name, prefix }) =>
        el("span", name === null ? null : named(name), " ", el("code", `${prefix}…`)),
      ),
      column("suspended", stateOf),
      column("spending_limit", limitOf),
      column("last_used_at", ({ last_used_at }) => ago(last_used_at)),
      column("expires_at", ({ expires_at }) => ago(expires_at)),
      column("previous_until", ({ previous_until: until }) =>
        until === null || Date.parse(until) < Date.now() ? none() : brief(until),
      ),
      ["Actions", (key) => actions(key, reload, current), "right"],
    ],
    empty: "No keys.",
    async load(signal) {
      const [{ may_manage_keys, key }, listed] = await Promise.all([
        account,
        askOwn<ListBody<KeyBody>>("/keys", signal),
      ])
      current = may_manage_keys ? key.id : null
      tools.replaceChildren(...(may_manage_keys ? [button("New key", () => makeKey(reload))] : []))
      return listed
    },
  })
  return made
}

const NARROWED = "It has the models, the group and the labels of the key that you use here."

const makeKey = (done: () => void) =>
  openKeyDialog(NARROWED, [], (body) => tellOwn("POST", "/keys", body), done)

function actions(key: KeyBody, done: () => void, own_id: string | null): Child {
  const state = keyState(key, Date.now())
  if (own_id === null || state === "revoked" || state === "expired") return none()
  const { id, prefix } = key
  const name = key.name ?? prefix
  const tellRotated = async (body: object) => {
    const rotated = await tellOwn<CreatedKeyBody>("POST", `/keys/${id}/rotate`, body)
    if (id === own_id) useKey(rotated.key)
    return rotated
  }
  const revoked = id === own_id ? () => forgetKey("The key is revoked.") : done
  const buttons = rowActions(name, done, {
    Rotate: () => rotation(name, tellRotated),
    Revoke: () => ({ ...revocation(name, "", () => tellOwn("DELETE", `/keys/${id}`)), done: revoked }),
  })
  return el("div.actions", ...buttons)
}
