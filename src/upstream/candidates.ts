import type { Credential, Model, Route } from "../config/config.ts"

/** The parts of a request that decide which upstreams and keys it is sent to. */
export interface Asking {
  readonly account_id: string
  /** Calls with the same affinity go to the same upstream and key, if there is a choice (D82); null for none. */
  readonly affinity: string | null
  /** Below the upstream's `base_url`, with its query: `/chat/completions`. */
  readonly path: string
}

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
  /** The account whose calls were refused; null for several. Others may use the key, as one's request may be the cause. */
  readonly account_id: string | null
}

/**
 * The keys that this process does not use for some time (D82). A changed key is a new object, so it is used
 * immediately.
 */
export class KeyCooldowns {
  readonly #refused = new WeakMap<Credential, Cooldown>()
  /** By the path and the upstream's name of the model: providers limit the rate of each, and token counts by themselves. */
  readonly #limited = new WeakMap<Credential, Map<string, Cooldown>>()
  readonly #now_ms: () => number

  constructor(now_ms: () => number) {
    this.#now_ms = now_ms
  }

  /** Called when the provider allows no more calls of this model for `cooldown_ms`. */
  noteLimited({ route, key }: Candidate, { account_id, path }: Asking, cooldown_ms: number): void {
    const of_key = this.#limited.get(key) ?? new Map<string, Cooldown>()
    this.#limited.set(key, of_key)
    const limit = limitOf(route, path)
    of_key.set(limit, this.#startCooldown("rate_limited", cooldown_ms, account_id, of_key.get(limit)))
  }

  /** Called when the provider refuses the key, or its account at the provider is empty. */
  noteRefused({ key }: Candidate, { account_id }: Asking): void {
    this.#refused.set(key, this.#startCooldown("refused", REFUSED_MS, account_id, this.#refused.get(key)))
  }

  clearRefusal({ key }: Candidate): void {
    this.#refused.delete(key)
  }

  /** True if calls of the account should not use the key now. */
  isCoolingDown({ route, key }: Candidate, { account_id, path }: Asking): boolean {
    return [this.#refused.get(key), this.#limited.get(key)?.get(limitOf(route, path))].some(
      (cooldown) =>
        this.#isActive(cooldown) && (cooldown.account_id === null || cooldown.account_id === account_id),
    )
  }

  /** The reason of a key's cooldown for some model and account, and the time left; null if it has none. */
  status(key: Credential): { readonly reason: CooldownReason; readonly remaining_ms: number } | null {
    const all = [this.#refused.get(key), ...(this.#limited.get(key)?.values() ?? [])]
    const cooldown = all.filter((one) => one !== undefined).find((one) => this.#isActive(one))
    return cooldown === undefined
      ? null
      : { reason: cooldown.reason, remaining_ms: Math.round(cooldown.until_ms - this.#now_ms()) }
  }

  #startCooldown(
    reason: CooldownReason,
    cooldown_ms: number,
    account_id: string,
    last: Cooldown | undefined,
  ): Cooldown {
    const is_shared = this.#isActive(last) && last.account_id !== account_id
    return { reason, until_ms: this.#now_ms() + cooldown_ms, account_id: is_shared ? null : account_id }
  }

  #isActive(cooldown: Cooldown | undefined): cooldown is Cooldown {
    return cooldown !== undefined && this.#now_ms() < cooldown.until_ms
  }
}

/** A limit of a provider, by the path without its query, which clients choose. */
const limitOf = ({ model }: Route, path: string) => `${path.split("?", 1)[0]} ${model}`

/** Bounded, because it is hashed for every upstream and key and a client may send 20 MiB. */
const MAX_AFFINITY_CHARACTERS = 1_024

const only = new WeakMap<Model["routes"], readonly Candidate[]>()

/**
 * The upstreams and keys of a model in the order in which a call tries them (D82): by priority, then at random by
 * weight. Calls with the same `affinity` get the same order, so that the provider's prompt cache serves them. Keys
 * in a cooldown for the account are left out, unless all are.
 */
export function candidatesOf(
  routes: Model["routes"],
  asking: Asking,
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
  const affinity = asking.affinity?.slice(0, MAX_AFFINITY_CHARACTERS) ?? null
  const chance = affinity === null ? Math.random : null
  const all = byWeight(routes, ({ upstream, model }) => `${upstream.name}/${model}`, affinity, chance)
    .toSorted((one, other) => one.priority - other.priority)
    .flatMap((route) =>
      byWeight(route.upstream.keys, ({ name }) => name, affinity, chance).map((key) => ({ route, key })),
    )
  const ready = all.filter((candidate) => !cooldowns.isCoolingDown(candidate, asking))
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
