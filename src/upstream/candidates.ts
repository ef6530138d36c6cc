import type { Credential, Model, Route } from "../config/config.ts"

export interface Candidate {
  readonly route: Route
  readonly key: Credential
}

/** Time for which a key that the provider refused is not used (D82). */
const REFUSED_MS = 60_000

/** The reason for which a key is not used for some time. */
type CooldownReason = "rate_limited" | "refused"

interface Cooldown {
  readonly reason: CooldownReason
  readonly until_ms: number
}

/**
 * The keys that this process does not use for some time (D82). A changed key is a new object, so it is used
 * immediately.
 */
export class KeyCooldowns {
  readonly #refused = new WeakMap<Credential, Cooldown>()
  /** By the upstream's name of the model, because providers limit the rate of each model. */
  readonly #limited = new WeakMap<Credential, Map<string, Cooldown>>()
  readonly #now_ms: () => number

  constructor(now_ms: () => number) {
    this.#now_ms = now_ms
  }

  /** Called when the provider allows no more calls of this model for `cooldown_ms`. */
  noteLimited({ route, key }: Candidate, cooldown_ms: number): void {
    const of_key = this.#limited.get(key) ?? new Map<string, Cooldown>()
    this.#limited.set(key, of_key.set(route.model, this.#startCooldown("rate_limited", cooldown_ms)))
  }

  /** Called when the provider refuses the key, or its account at the provider is empty. */
  noteRefused({ key }: Candidate): void {
    this.#refused.set(key, this.#startCooldown("refused", REFUSED_MS))
  }

  clearRefusal({ key }: Candidate): void {
    this.#refused.delete(key)
  }

  isCoolingDown({ route, key }: Candidate): boolean {
    return this.#isActive(this.#refused.get(key)) || this.#isActive(this.#limited.get(key)?.get(route.model))
  }

  /** The reason of a key's cooldown for some model, and the time left; null if it has none. */
  status(key: Credential): { readonly reason: CooldownReason; readonly remaining_ms: number } | null {
    const all = [this.#refused.get(key), ...(this.#limited.get(key)?.values() ?? [])]
    const cooldown = all.filter((one) => one !== undefined).find((one) => this.#isActive(one))
    return cooldown === undefined
      ? null
      : { reason: cooldown.reason, remaining_ms: Math.round(cooldown.until_ms - this.#now_ms()) }
  }

  #startCooldown(reason: CooldownReason, cooldown_ms: number): Cooldown {
    return { reason, until_ms: this.#now_ms() + cooldown_ms }
  }

  #isActive(cooldown: Cooldown | undefined): boolean {
    return cooldown !== undefined && this.#now_ms() < cooldown.until_ms
  }
}

/** Bounded, because it is hashed for every upstream and key and a client may send 20 MiB. */
const MAX_AFFINITY_CHARACTERS = 1_024

const only = new WeakMap<Model["routes"], readonly Candidate[]>()

/**
 * The upstreams and keys of a model in the order in which a call tries them (D82): by priority, then at random by
 * weight. Calls with the same `affinity_key` get the same order, so that the provider's prompt cache serves them. Keys
 * in a cooldown are left out, unless all are.
 */
export function candidatesOf(
  routes: Model["routes"],
  affinity_key: string | null,
  cooldowns: KeyCooldowns,
): readonly Candidate[] {
  const known = only.get(routes)
  if (known !== undefined) return known
  const [route] = routes
  if (routes.length === 1 && route.upstream.keys.length === 1) {
    const candidates = [{ route, key: route.upstream.keys[0] }]
    only.set(routes, candidates)
    return candidates
  }
  const affinity = affinity_key?.slice(0, MAX_AFFINITY_CHARACTERS) ?? null
  const chance = affinity === null ? Math.random : null
  const all = byWeight(routes, ({ upstream, model }) => `${upstream.name}/${model}`, affinity, chance)
    .toSorted((one, other) => one.priority - other.priority)
    .flatMap((route) =>
      byWeight(route.upstream.keys, ({ name }) => name, affinity, chance).map((key) => ({ route, key })),
    )
  const ready = all.filter((candidate) => !cooldowns.isCoolingDown(candidate))
  return ready.length > 0 ? ready : all
}

/** Random by weight, or by an affinity (rendezvous hashing): a missing item moves only its own calls. */
function byWeight<Item extends { readonly weight: number }>(
  items: readonly Item[],
  nameOf: (item: Item) => string,
  affinity: string | null,
  chance: (() => number) | null,
): readonly Item[] {
  if (items.length === 1) return items
  return items
    .map((item) => {
      const share = chance === null ? uniform(`${affinity}\n${nameOf(item)}`) : chance()
      return { item, wait: -Math.log(share || Number.MIN_VALUE) / item.weight }
    })
    .toSorted((one, other) => one.wait - other.wait)
    .map(({ item }) => item)
}

/** The hash of a text, as a number from 0 to 1. */
function uniform(text: string): number {
  return Bun.hash.xxHash32(text) / 2 ** 32
}
