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

/** Waiters that continue one by one, by accounts in turn (D78). */
export class Waiters {
  /** By account; the one whose turn is next is first. */
  readonly #waiting = new Map<string, Waiting[]>()

  get is_empty(): boolean {
    return this.#waiting.size === 0
  }

  /** Resolves when the account's turn has come. */
  wait(account_id: string, cost = 1): Promise<void> {
    return new Promise((resolve) => {
      const own = this.#waiting.get(account_id)
      if (own === undefined) this.#waiting.set(account_id, [{ resolve, cost }])
      else own.push({ resolve, cost })
    })
  }

  /** Continues the first waiter of the next account, which goes to the end if it has more. Returns its cost; 0 if none waits. */
  next(): number {
    const [next] = this.#waiting
    if (next === undefined) return 0
    const [account_id, own] = next
    const first = own.shift()
    first?.resolve()
    this.#waiting.delete(account_id)
    if (own.length > 0) this.#waiting.set(account_id, own)
    return first?.cost ?? 0
  }
}
