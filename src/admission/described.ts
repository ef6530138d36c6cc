import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { pathOf } from "../wire/fault.ts"
import { SWITCHES, type Switch } from "../wire/fields.ts"
import type { FieldMeaning, KnownFields } from "../wire/known-fields.ts"
import type { FoundMedia, Media } from "../wire/media.ts"
import { folded } from "../wire/paths.ts"

/** Everything in a request that affects money (D88). */
export type Described = Readonly<
  Pick<
    Description,
    "bytes" | "tokens" | "tool_tokens" | "media" | "embedded" | "media_size_field" | "switches"
  > &
    Pick<
      Description,
      "rounds" | "service_tier" | "max_tokens" | "other_limit" | "thinking_tokens" | "choices"
    > &
    Pick<Description, "predicted_bytes" | "uses_reasoning" | "disables_thinking" | "repeats">
>

const SHOWN_CHARACTERS = 100

/** The results of a walk over a request, and its position. */
export class Description {
  /** UTF-8 bytes of the JSON text of the prompt fields, without the data of media. */
  bytes = 0
  /** The tokens of an input that is given in tokens (D67). */
  tokens = 0
  /** The most tokens that a provider adds to explain tools to the model. */
  tool_tokens = 0
  readonly media: Media[] = []
  /** Media in texts to embed: text for the hold, media for an estimate (D67). */
  readonly embedded: FoundMedia[] = []
  /** The first field that makes pictures larger; null for none. */
  media_size_field: string | null = null
  /** The switches (`SWITCHES`) that the request sets, each with the first field that sets it. */
  readonly switches = new Map<string, string>()
  /** The requested service tier; null for none, and for `auto` (D70). */
  service_tier: string | null = null
  /** The limit of output tokens of each choice (D12); 0 for none. */
  max_tokens = 0
  /** The largest limit under names that only some servers read; infinite for an invalid one; 0 for none. */
  other_limit = 0
  /** Requested reasoning tokens beyond the output limit; infinite without a budget, null if no reasoning is requested. */
  thinking_tokens: number | null = null
  /** True if it turns off reasoning, which some models do by default. */
  disables_thinking = false
  /** UTF-8 bytes of the JSON text of a prediction. Parts that the answer does not repeat are billed as output. */
  predicted_bytes = 0
  /** The number of requested choices (D12). */
  choices = 1
  /** True if it requests reasoning, which the provider may hide from the client. */
  uses_reasoning = false
  /** The most runs of tools that the request allows the provider. */
  max_calls = Number.POSITIVE_INFINITY
  readonly keys: string[] = []
  /** True if the bytes of the field at the top count. */
  is_counted = false
  /** True if the current part is text by its type. */
  is_text = false
  /** True if the provider may read the prompt repeatedly, whatever bounds the request has (D89). */
  repeats = false
  /** The sum of the allowed runs of the provider's tools. */
  #uses = 0

  /** The number of times that the provider may read the prompt by the request's own bounds; infinite without any (D89). */
  get rounds(): number {
    return Math.min(this.max_calls, this.#uses) + 1
  }

  /** The name of the field at the top. */
  get top(): string {
    return this.keys[0] ?? ""
  }

  get path(): string {
    return pathOf(this.keys).slice(0, SHOWN_CHARACTERS)
  }

  enable(name: string, field = this.top, uses = Number.POSITIVE_INFINITY): void {
    if (!this.switches.has(name)) this.switches.set(name, field)
    if (switchOf(name).opens !== "rounds") return
    this.repeats = true
    this.#uses += uses
  }

  /** A medium whose data is in a text. */
  add({ media, characters }: FoundMedia): void {
    this.media.push(media)
    if (this.is_counted && !this.is_text) this.bytes -= characters
    if (media.kind === "audio") this.enable("audio_input")
    if (media.tokens === null) this.enable("unmeasured", this.path)
  }

  /** The meaning of the current field; undefined for an unknown one. Throws for a known name in another spelling (D18). */
  meaning({ meanings, spellings }: KnownFields, name: string): FieldMeaning | undefined {
    const meaning = meanings.get(name)
    if (meaning !== undefined) return meaning
    const meant = spellings.get(folded(name))
    if (meant === undefined) return undefined
    const param = this.path
    throw new GatewayError("invalid_request", {
      param,
      message: `\`${param}\`: write this name as \`${meant}\`, because some providers read both as the same field.`,
    })
  }
}

const SWITCH_NAMED: ReadonlyMap<string, Switch> = new Map(Object.entries(SWITCHES))

/** The properties of a switch. Each tool with a fee per run has its own switch, by the tool's name. */
export function switchOf(name: string): Switch {
  return SWITCH_NAMED.get(name) ?? { ...SWITCHES.tool_run, price: name }
}

/** The first field that makes the prompt open, so that only the context size bounds it (D12, D89); null for none. */
export function openingField(
  { switches }: Pick<Described, "switches">,
  { part_tokens }: Model,
): string | null {
  for (const [name, field] of switches) {
    const { opens, unless_part_tokens } = switchOf(name)
    if (opens !== undefined && !(unless_part_tokens === true && part_tokens !== null)) return field
  }
  return null
}
