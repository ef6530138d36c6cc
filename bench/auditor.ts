import { printUsd } from "../src/money.ts"
import type { Admin, Payer } from "./admin.ts"
import { PRICE } from "./answer-spec.ts"
import { faultOf, nanoOf } from "./audit.ts"
import { AuditAnswer } from "./ledger-load.ts"
import type { Generated } from "./provider.ts"
import type { AuditResult } from "./results.ts"
import type { Rig } from "./rig.ts"

const CREDIT = "100000000"
const MAX_FAULTS = 10
/** Settlements may follow the last byte (D32: settle before the last byte, but wait at most 250 ms). */
const SETTLED_MS = 10_000
const POLL_MS = 50

/**
 * Makes the accounts that pay for a run, and audits them: every answer of the provider is in the ledger exactly once and at its price,
 * nothing else is there, and every balance is its credit less its charges.
 */
export class Auditor {
  readonly #rig: Rig
  /** What the provider has generated, by the id of the call, until its call is found in the ledger. */
  readonly #generated = new Map<string, Generated>()
  readonly #faults: string[] = []
  #calls = 0
  #charged_nano = 0n

  constructor(rig: Rig) {
    this.#rig = rig
  }

  payer(name: string): Promise<Payer> {
    return this.#rig.admin.payer(name, CREDIT)
  }

  /** Recomputes every charge of an account, and its balance from the charges. */
  async check({ account_id }: Payer): Promise<void> {
    const { admin } = this.#rig
    const { balance, held } = await settledBalance(admin, account_id)
    for (const answer of await this.#rig.generated()) {
      if (this.#generated.has(answer.id)) this.#faults.push(`call ${answer.id} was answered twice`)
      this.#generated.set(answer.id, answer)
    }
    let charged_nano = 0n
    for await (const call of admin.calls(account_id)) {
      const fault = faultOf(call, this.#generated.get(call.id), PRICE)
      if (fault !== null)
        this.#faults.push(`call ${call.id} (${call.state}, ${call.failure ?? "no failure"}): ${fault}`)
      this.#generated.delete(call.id)
      this.#calls += 1
      charged_nano += nanoOf(call.charge ?? "0")
    }
    const left_nano = nanoOf(CREDIT) - charged_nano
    if (nanoOf(balance) !== left_nano) {
      this.#faults.push(`a balance is ${balance}, its credit less its charges ${printUsd(left_nano)}`)
    }
    if (held !== "0") this.#faults.push(`${held} USD are still held`)
    this.#charged_nano += charged_nano
  }

  /** The result of all checks, with the gateway's own audit and that of the ledger that ran without a gateway. */
  async close(): Promise<AuditResult> {
    const gateway = await this.#rig.admin.audit()
    const alone = await this.#rig.ledger.ask(AuditAnswer, { what: "audit" })
    const violations = gateway.violations.length + alone.violations
    const open_holds = gateway.open_holds + alone.open_holds
    const faults = [
      ...this.#faults.slice(0, MAX_FAULTS),
      ...(this.#faults.length > MAX_FAULTS ? [`${this.#faults.length - MAX_FAULTS} more such faults`] : []),
      ...(this.#generated.size > 0
        ? [`${this.#generated.size} answers of the provider are not in the ledger`]
        : []),
      ...(violations > 0 ? [`${violations} accounts disagree with their journal`] : []),
      ...(open_holds > 0 ? [`${open_holds} holds are still open`] : []),
    ]
    return {
      calls: this.#calls,
      charged: printUsd(this.#charged_nano),
      faults: faults.map((fault) => `the money does not add up: ${fault}`),
    }
  }
}

async function settledBalance(admin: Admin, account_id: string) {
  const until = performance.now() + SETTLED_MS
  for (;;) {
    const balance = await admin.balance(account_id)
    if (balance.held === "0" || performance.now() > until) return balance
    await Bun.sleep(POLL_MS)
  }
}
