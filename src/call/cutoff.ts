/** The part of an AbortSignal that calls use. */
export interface Signal {
  readonly aborted: boolean
  addEventListener(type: "abort", listener: () => void): void
  removeEventListener(type: "abort", listener: () => void): void
  throwIfAborted(): void
}

/** An AbortController that takes 5 KiB less for each stream. It calls its listeners in order. */
export class Cutoff implements Signal {
  #aborted = false
  #listeners: (() => void)[] = []

  get aborted(): boolean {
    return this.#aborted
  }

  abort(): void {
    if (this.#aborted) return
    this.#aborted = true
    const listeners = this.#listeners
    this.#listeners = []
    for (const listener of listeners) listener()
  }

  addEventListener(_type: "abort", listener: () => void): void {
    if (!this.#aborted) this.#listeners.push(listener)
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    const at = this.#listeners.indexOf(listener)
    if (at === this.#listeners.length - 1) this.#listeners.pop()
    else if (at !== -1) this.#listeners.splice(at, 1)
  }

  throwIfAborted(): void {
    if (this.#aborted) throw new DOMException("The call was abandoned.", "AbortError")
  }
}

export const NEVER: Signal = {
  aborted: false,
  addEventListener() {},
  removeEventListener() {},
  throwIfAborted() {},
}
