/** An account may use this many times the free capacity. */
const SHARE = 15

/** True if an account may use more of a shared capacity: it uses less than 15 times what is free (D78). */
export function isWithinShare(used: number, free: number): boolean {
  return used < SHARE * free
}

/** A capacity that accounts share (D78). No account has a part that it does not use. */
export class FairShare {
  used = 0
  readonly #of_account = new Map<string, number>()

  of(account_id: string): number {
    return this.#of_account.get(account_id) ?? 0
  }

  /** True if an account may take so much: it is neither more than its share nor than there is. */
  has(account_id: string, amount: number, capacity: number): boolean {
    const free = capacity - this.used
    return amount <= free && isWithinShare(this.of(account_id), free)
  }

  /** False, and nothing is acquired, if the account may not have so much. */
  acquire(account_id: string, amount: number, capacity: number): boolean {
    if (!this.has(account_id, amount, capacity)) return false
    this.add(account_id, amount)
    return true
  }

  /** Acquires what cannot be refused, also beyond the capacity. */
  add(account_id: string, amount: number): void {
    this.used += amount
    this.#of_account.set(account_id, this.of(account_id) + amount)
  }

  release(account_id: string, amount: number): void {
    this.used -= amount
    const left = this.of(account_id) - amount
    if (left > 0) this.#of_account.set(account_id, left)
    else this.#of_account.delete(account_id)
  }
}

interface Waiting {
  resolve(): void
  readonly cost: number
}

interface AccountWaiting {
  readonly waiting: Waiting[]
  /** The cost that it may still have in this turn; a debt for what cost more than a turn. */
  balance: number
}

/** The most turns that an account passes for something costly. */
const MAX_PASSED_TURNS = 32

/** Waiters that continue one by one, by accounts in turn (D78). Accounts that always wait get the same cost. */
export class Waiters {
  /** The one whose turn is next is first. */
  readonly #accounts = new Map<string, AccountWaiting>()
  readonly #turn_cost: number

  constructor(turn_cost = 1) {
    this.#turn_cost = turn_cost
  }

  get is_empty(): boolean {
    return this.#accounts.size === 0
  }

  /** Resolves when the account's turn has come. */
  wait(account_id: string, cost = 1): Promise<void> {
    return new Promise((resolve) => {
      const own = this.#accounts.get(account_id)
      const waiter = { resolve, cost }
      if (own === undefined) this.#accounts.set(account_id, { waiting: [waiter], balance: this.#turn_cost })
      else own.waiting.push(waiter)
    })
  }

  /** Continues the first waiter of the account whose turn it is. Returns its cost; 0 if none waits. */
  next(): number {
    for (const [account_id, account] of this.#accounts) {
      const first = account.balance > 0 ? account.waiting.shift() : undefined
      const cost = first?.cost ?? 0
      first?.resolve()
      account.balance = Math.max(account.balance - cost, -MAX_PASSED_TURNS * this.#turn_cost)
      if (account.waiting.length === 0) this.#accounts.delete(account_id)
      else if (account.balance <= 0) {
        account.balance += this.#turn_cost
        this.#accounts.delete(account_id)
        this.#accounts.set(account_id, account)
      }
      if (first !== undefined) return cost
    }
    return 0
  }
}
