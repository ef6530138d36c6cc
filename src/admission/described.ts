import { GatewayError } from "../errors.ts"
import { pathOf } from "../wire/fault.ts"
import type { Known, Meaning } from "../wire/known-fields.ts"
import { type Found, type Media, PICTURE_ELSEWHERE } from "../wire/media.ts"
import { folded } from "../wire/paths.ts"
import { repeatsPrompt } from "./switches.ts"

/** All of a request that touches money (D88). Nothing else of it is read for that. */
export interface Described {
  /** UTF-8 bytes of the JSON text of the prompt fields, without the data of media. */
  readonly bytes: number
  /** The tokens of an input that is given in tokens (D67). */
  readonly tokens: number
  readonly media: readonly Media[]
  /** Media in texts that are embedded: text for the hold, media for an estimate (D67). */
  readonly embedded: readonly Found[]
  /** The first field that makes media larger; null for none. */
  readonly knob: string | null
  /** What it asks for that needs a price, or that opens the prompt (`SWITCHES`), and the first field that does so. */
  readonly asks: ReadonlyMap<string, string>
  /** The service tier that it names; null for none, and for `auto` (D70). */
  readonly service_tier: string | null
  /** How often the provider may read the prompt, by the request's own bounds; infinite without (D89). */
  readonly rounds: number
  /** The limit of its output tokens, of each choice (D12); 0 for none. */
  readonly max_tokens: number
  /** How many choices it asks for (D12). */
  readonly choices: number
  /** Whether it asks for reasoning, which a client may not be shown. */
  readonly reasons: boolean
}

const SHOWN_CHARACTERS = 100

/** What a walk over a request has collected, and where it is. */
export class Description implements Described {
  bytes = 0
  tokens = 0
  readonly media: Media[] = []
  readonly embedded: Found[] = []
  knob: string | null = null
  readonly asks = new Map<string, string>()
  service_tier: string | null = null
  max_tokens = 0
  choices = 1
  reasons = false
  /** The names and places from the top to where the walk is. */
  readonly keys: string[] = []
  /** Whether the part that the walk is in has only text, by its type. */
  is_text = false
  /** The runs of its tools that the request allows; of each tool that the provider runs, and of all of them. */
  #uses = 0
  #calls = Number.POSITIVE_INFINITY

  get rounds(): number {
    return Math.min(this.#calls, this.#uses) + 1
  }

  /** The name of the field at the top. */
  get top(): string {
    return this.keys[0] ?? ""
  }

  get path(): string {
    return pathOf(this.keys).slice(0, SHOWN_CHARACTERS)
  }

  ask(what: string, field = this.top, uses = Number.POSITIVE_INFINITY): void {
    if (!this.asks.has(what)) this.asks.set(what, field)
    if (repeatsPrompt(what)) this.#uses += uses
  }

  limitCalls(calls: number): void {
    this.#calls = Math.min(this.#calls, calls)
  }

  /** A medium whose data is in a text. */
  add({ media, characters }: Found): void {
    this.media.push(media)
    if (!this.is_text) this.bytes -= characters
    if (media.kind === "audio") this.ask("audio_input")
  }

  addPictureElsewhere(): void {
    this.media.push(PICTURE_ELSEWHERE)
  }

  /** What the field means that the walk is at; undefined for an unknown one. Throws for a known name in another spelling (D18). */
  meaning({ meanings, spellings }: Known, name: string): Meaning | undefined {
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
