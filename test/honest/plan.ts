import fc from "fast-check"
import { DIALECTS } from "./dialects.ts"
import { LISTS } from "./models.ts"
import { TEXT_KINDS } from "./texts.ts"

/** What a random call is made of. Small numbers are simple calls, so that a failure shrinks to one. */
export interface Plan {
  readonly dialect: number
  readonly list: number
  readonly margin: string
  readonly stream: boolean
  readonly prompt: readonly Passage[]
  readonly system: boolean
  /** Indexes of files. */
  readonly media: readonly number[]
  readonly tools: number
  /** 0 for none. */
  readonly max_tokens: number
  readonly choices: number
  /** Index of a service tier; 0 asks for none. */
  readonly tier: number
  /** What becomes of that wish: it is served, or the default is. */
  readonly serves: boolean
  readonly searches: number
  readonly rounds: number
  /** Percent of the prompt's text. */
  readonly cached: number
  readonly written: number
  /** Percent of what is written. */
  readonly for_an_hour: number
  readonly asks_reasoning: boolean
  readonly thoughts: readonly Passage[]
  readonly shows_thoughts: boolean
  readonly words: readonly Passage[]
  readonly calls: readonly Passage[]
  readonly pictures: number
  readonly speech: number
  /** For details that a dialect chooses. */
  readonly variant: number
}

export interface Passage {
  readonly kind: number
  readonly at: number
  readonly length: number
}

function passages(most: number, longest: number): fc.Arbitrary<Passage[]> {
  return fc.array(
    fc.record({
      kind: fc.nat(TEXT_KINDS.length - 1),
      at: fc.nat(999),
      length: fc.integer({ min: 1, max: longest }),
    }),
    { maxLength: most },
  )
}

const often = (most: number) => fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, fc.nat(most))

const percent = fc.oneof(fc.constant(0), fc.constant(100), fc.nat(100))

export const plans: fc.Arbitrary<Plan> = fc.record({
  dialect: fc.nat(DIALECTS.length - 1),
  list: fc.nat(LISTS.length - 1),
  margin: fc.constantFrom("1", "1", "1.25", "0.9999", "3.3333", "1000"),
  stream: fc.boolean(),
  prompt: fc.oneof({ weight: 9, arbitrary: passages(4, 600) }, { weight: 1, arbitrary: passages(2, 20_000) }),
  system: fc.boolean(),
  media: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.array(fc.nat(99), { maxLength: 3 })),
  tools: often(2),
  max_tokens: often(400),
  choices: fc.constantFrom(1, 1, 1, 2, 3),
  tier: often(3),
  serves: fc.boolean(),
  searches: often(10),
  rounds: fc.nat(3),
  cached: percent,
  written: percent,
  for_an_hour: percent,
  asks_reasoning: fc.boolean(),
  thoughts: fc.oneof(fc.constant([]), passages(6, 120)),
  shows_thoughts: fc.boolean(),
  words: passages(10, 60),
  calls: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, passages(3, 80)),
  pictures: often(2),
  speech: often(5),
  variant: fc.nat(5),
})
