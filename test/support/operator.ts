import type { Receipt } from "../../src/wire/receipt.ts"
import { until } from "./until.ts"

export const ADMIN_TOKEN = "test-admin-token-0123456789"

/** A call as `/admin/calls/{id}` shows it. */
export type CallRecord = Readonly<Record<string, unknown>>

/** How often the parts of a test's account are asked for while the database of a busy machine does not answer. */
const TRIES = 10
const PAUSE_MS = 200

/** The operator of the gateway at `url`, wherever it runs. */
export function operatorOf(url: string) {
  const admin = async <Answer>(method: string, path: string, body?: unknown, tries = 1): Promise<Answer> => {
    const response = await fetch(`${url}/admin${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (response.status === 503 && tries > 1) {
      await Bun.sleep(PAUSE_MS)
      return admin(method, path, body, tries - 1)
    }
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    const text = await response.text()
    return JSON.parse(text === "" ? "null" : text)
  }

  /** What the holder of a key reads. */
  async function own<Answer>(path: string, key: string): Promise<Answer> {
    const response = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${key}` } })
    const text = await response.text()
    if (!response.ok) throw new Error(`GET ${path}: ${response.status} ${text}`)
    return JSON.parse(text)
  }

  const calls = async (query = "") => (await admin<{ data: CallRecord[] }>("GET", `/calls${query}`)).data

  return {
    admin,
    own,
    /** The receipt for the call of an answer, once it has ended. */
    receipt: (answer: Response, key: string) =>
      until(
        () => own<Receipt>(`/v1/calls/${answer.headers.get("x-request-id")}`, key),
        ({ state }) => state !== "open",
      ),
    /** A new account with `usd` and a key of it. */
    async account(usd = "10") {
      const make = <Answer>(path: string, body: object) => admin<Answer>("POST", path, body, TRIES)
      const { id } = await make<{ id: string }>("/accounts", { id: crypto.randomUUID(), name: "test" })
      if (usd !== "0") await make(`/accounts/${id}/credits`, { id: crypto.randomUUID(), amount: usd })
      const key = await make<{ id: string; key: string }>(`/accounts/${id}/keys`, {})
      return { id, key: key.key, key_id: key.id }
    },
    balance: (account_id: string) =>
      admin<{ balance: string; held: string; available: string }>("GET", `/accounts/${account_id}`),
    call: (id: string) => admin<CallRecord>("GET", `/calls/${id}`),
    /** The call of an answer, by the id the client saw, once it has ended: after 250 ms the answer does not wait for that (D32). */
    callOf: (response: Response) =>
      until(
        () => admin<CallRecord>("GET", `/calls/${response.headers.get("x-request-id")}`),
        ({ state }) => state !== "open",
      ),
    calls,
    /** The calls of an account, once there are `count` and none is open. */
    endedCalls: (account_id: string, count = 1) =>
      until(
        () => calls(`?account=${account_id}`),
        (found) => found.length >= count && found.every(({ state }) => state !== "open"),
      ),
    /** What a scrape of `/metrics` says. */
    metrics: async () =>
      (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } })).text(),
    audit: () => admin<{ open_holds: number; violations: unknown[] }>("GET", "/audit"),
  }
}
