import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { checked } from "./checked.ts"

const Made = Type.Object({ id: Type.String() })
const MadeKey = Type.Object({ key: Type.String() })
const Balance = Type.Object({ balance: Type.String(), held: Type.String() })
const GatewayAudit = Type.Object({
  open_holds: Type.Integer(),
  violations: Type.Array(Type.Unknown()),
})

/** The fields of a call that the audit needs to recompute its charge. */
export const CallLine = Type.Object({
  id: Type.String(),
  state: Type.String(),
  basis: Type.String(),
  failure: Type.Union([Type.String(), Type.Null()]),
  charge: Type.Union([Type.String(), Type.Null()]),
})
export type CallLine = Static<typeof CallLine>
const Calls = TypeCompiler.Compile(
  Type.Object({ data: Type.Array(CallLine), next: Type.Union([Type.String(), Type.Null()]) }),
)

const PAGE = 1000

/** An account to be charged for a scenario, and its key. */
export interface Payer {
  readonly account_id: string
  readonly key: string
}

export class Admin {
  readonly #url: string
  readonly #token: string

  constructor(url: string, token: string) {
    this.#url = url
    this.#token = token
  }

  /** A new account with `credit` USD and a key. */
  async payer(name: string, credit: string): Promise<Payer> {
    const account = await this.#ask(Made, "POST", "/accounts", { name })
    await this.#ask(Made, "POST", `/accounts/${account.id}/credits`, { amount: credit })
    const { key } = await this.#ask(MadeKey, "POST", `/accounts/${account.id}/keys`, {})
    return { account_id: account.id, key }
  }

  balance(account_id: string): Promise<Static<typeof Balance>> {
    return this.#ask(Balance, "GET", `/accounts/${account_id}`)
  }

  async *calls(account_id: string): AsyncGenerator<CallLine> {
    let after: string | null = ""
    while (after !== null) {
      const query: string = after === "" ? "" : `&after=${after}`
      const page = await this.#fetch("GET", `/calls?account=${account_id}&limit=${PAGE}${query}`)
      if (!Calls.Check(page)) throw new Error("the list of calls has another form than expected")
      yield* page.data
      after = page.next
    }
  }

  audit(): Promise<Static<typeof GatewayAudit>> {
    return this.#ask(GatewayAudit, "GET", "/audit")
  }

  async #ask<S extends TSchema>(schema: S, method: string, path: string, body?: object): Promise<Static<S>> {
    return checked(schema, await this.#fetch(method, path, body))
  }

  async #fetch(method: string, path: string, body?: object): Promise<unknown> {
    const response = await fetch(`${this.#url}/admin${path}`, {
      method,
      headers: { authorization: `Bearer ${this.#token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (!response.ok) throw new Error(`${method} /admin${path}: ${response.status} ${await response.text()}`)
    return response.json()
  }
}
