import { Counted } from "../usage/counted.ts"
import { ANY_USAGE, firstCounted, usagesOf, WITH_OUTPUT } from "../usage/reading.ts"
import { isMissing, isObject, isText, isWhole, type JsonObject, readServiceTier } from "../wire/usage.ts"
import { EventReading } from "./event-reading.ts"
import type { Abridged } from "./long-text.ts"
import { choicesOf, outputBytes } from "./output.ts"
import { DONE, EMPTY, ERROR, type EventKind, OUTPUT, reportsError } from "./reading.ts"
import { Repetition } from "./repetition.ts"

/** Reads a stream of chat chunks, which `[DONE]` ends. */
export class ChatReading extends EventReading {
  readonly #requested: number
  /** The indexes of the choices that have their finish_reason. */
  readonly #finished = new Set<number>()
  readonly #unfinished = new Set<number>()
  /** By choice, the output in whole messages, which repeat earlier deltas. */
  readonly #snapshots = new Map<number, number>()

  /** `requested`: the number of requested choices (D12). */
  constructor(requested = 1, rules = ANY_USAGE) {
    super(new Repetition(textOf, outputBytes), rules)
    this.#requested = requested
  }

  protected override readDone(): EventKind {
    this.done = true
    return DONE
  }

  protected readPayload(payload: JsonObject, long?: Abridged): EventKind {
    // The first tier counts, so recurring events need not be read for it.
    this.service_tier ??= readServiceTier(payload)
    const usages = usagesOf(payload)
    if (reportsError(payload)) {
      this.error = true
      return { ...ERROR, trusted_usage: this.#count(usages, true) }
    }
    const choices = choicesOf(payload)
    for (const [position, choice] of choices.entries()) this.#note(choice, position)
    const bytes = this.#newBytes(choices, long?.bytes(outputBytes) ?? outputBytes(payload))
    this.output_bytes += bytes
    const kind = bytes > 0 ? OUTPUT : EMPTY
    const read = choices.some(reportsError) ? { ...kind, reports_error: true } : kind
    if (usages.length === 0) return read
    const closing = choices.length === 0 || this.#has_all || this.closed_bytes === this.output_bytes
    const trusted_usage = this.#count(usages, closing)
    const with_usage = usages.some(isObject)
    const usage_only = with_usage && bytes === 0 && choices.every((choice) => this.#saysNothing(choice))
    return { ...read, trusted_usage, with_usage, usage_only, final_usage: trusted_usage && closing }
  }

  /** True if a choice without output says nothing. SDKs need its role once. */
  #saysNothing({ finish_reason, delta }: JsonObject): boolean {
    const is_first = isObject(delta) && typeof delta.role === "string" && this.output_bytes === 0
    return isMissing(finish_reason) && !is_first
  }

  /** Counts the usage of a payload. Returns true if it is valid. `closing`: it is in the place of final usage (D4). */
  #count(usages: readonly unknown[], closing: boolean): boolean {
    const counted = firstCounted(usages, this.usage.rules)
    if (!this.usage.take(counted, WITH_OUTPUT, false)) return false
    // 0/0 after other usage does not replace it, and counts no output (D2).
    const { prompt, output }: Counted["counts"] = counted instanceof Counted ? counted.counts : {}
    if (this.counted_bytes !== null && prompt === 0 && output === 0) return true
    this.counted_bytes = this.output_bytes
    if (closing) this.closed_bytes = this.output_bytes
    return true
  }

  /** The output that a chunk adds: a whole `message` after its deltas repeats them (D7). */
  #newBytes(choices: readonly JsonObject[], bytes: number): number {
    if (!choices.some(isSnapshot)) return bytes
    for (const [position, choice] of choices.entries()) {
      if (!isSnapshot(choice) || this.#snapshots.size >= MAX_CHOICES) continue
      const choice_bytes = choices.length === 1 ? bytes : outputBytes({ choices: [choice] })
      this.#snapshots.set(indexOf(choice, position), choice_bytes)
    }
    const whole = [...this.#snapshots.values()].reduce((sum, one) => sum + one, 0)
    return Math.max(0, whole - this.output_bytes)
  }

  protected countLarge(members: JsonObject): boolean {
    return this.#count(usagesOf(members), true)
  }

  /** The choices that began and final usage are also enough, because a provider may ignore `n`. */
  get answered(): boolean {
    return this.#has_all || (this.paused && this.usage_final)
  }

  /** True if every choice that began has its finish_reason. */
  override get paused(): boolean {
    return this.#has_all || (this.#finished.size > 0 && this.#unfinished.size === 0)
  }

  get #has_all(): boolean {
    return this.#finished.size === this.#requested
  }

  #note(choice: JsonObject, position: number): void {
    if (this.#has_all) return
    const key = indexOf(choice, position)
    if (isText(choice.finish_reason)) {
      this.#unfinished.delete(key)
      this.#finished.add(key)
    } else if (!this.#finished.has(key) && this.#unfinished.size < MAX_CHOICES) this.#unfinished.add(key)
  }
}

/** A request may ask for 128 choices (D12). */
const MAX_CHOICES = 128

/** The choice's index, or its position in the list if the index is missing or invalid. */
function indexOf({ index }: JsonObject, position: number): number {
  return isWhole(index) ? index : position
}

/** True if a choice of a chunk has a whole message in place of a delta. */
function isSnapshot({ delta, message }: JsonObject): boolean {
  return isMissing(delta) && isObject(message)
}

/** The text of a chunk with one choice that has text; null for any other chunk. */
function textOf(payload: JsonObject): string | null {
  const [choice, ...others] = choicesOf(payload)
  if (choice === undefined || others.length > 0 || !isObject(choice.delta)) return null
  const { content, reasoning_content, reasoning } = choice.delta
  return [content, reasoning_content, reasoning].find(isText) ?? null
}
