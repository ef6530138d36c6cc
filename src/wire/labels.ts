import { Type } from "@sinclair/typebox"
import { EXPECTED, invalidField } from "./fault.ts"

/** The form of tags (D94), in requests, in keys and in the configuration: up to 64 bytes each. */

const name = /^[a-z][a-z0-9_.-]{0,63}$/
const value = /^[A-Za-z0-9_.:/@+-]{1,64}$/

export const TAG_NAME = name.source
/** The most tags that a client sends with a call, and the most labels of a key. */
export const MAX_TAGS = 8

export const isTagName = (text: string): boolean => name.test(text)
export const isTagValue = (text: string): boolean => value.test(text)

export const clientTags = ["accepted", "ignored"] as const

const LABELS = `an object of at most ${MAX_TAGS} tags such as {"team": "search"}: names of up to 64 of a-z 0-9 _ . - that begin with a letter, values of up to 64 letters, digits and _ . : / @ + -`

/** Tags by name. The names are not in the schema. */
export const tags = (description: string, pattern?: string) =>
  Type.Unsafe<Record<string, string>>(
    Type.Object(
      {},
      {
        additionalProperties: Type.String(pattern === undefined ? {} : { pattern }),
        description,
        [EXPECTED]: LABELS,
      },
    ),
  )

export const KeyLabels = tags(
  `Tags of all calls with the key: at most ${MAX_TAGS}. No client can change them.`,
  value.source,
)

/** Throws `invalid_request` for too many labels, and for a name that is none of a tag. */
export function checkLabels(labels: Readonly<Record<string, string>>): void {
  const names = Object.keys(labels)
  if (names.length > MAX_TAGS || !names.every(isTagName)) throw invalidField("labels", LABELS)
}

export const RequiredTags = Type.Array(Type.String({ pattern: TAG_NAME }), {
  minItems: 1,
  maxItems: MAX_TAGS,
  description: "Names of tags without which a call with the key is refused.",
  [EXPECTED]: `an array of 1 to ${MAX_TAGS} names of tags`,
})

export const ForgetEndUser = Type.Object(
  {
    end_user: Type.String({
      minLength: 1,
      maxLength: 2_048,
      description: "The name that clients send, or the `end_user_id` of a call.",
      [EXPECTED]: "1 to 2048 characters",
    }),
  },
  { additionalProperties: false, [EXPECTED]: "a JSON object" },
)

/** An end user whose name is removed (D94). */
export const ForgottenEndUser = Type.Object({
  id: Type.String({ format: "uuid" }),
  forgotten_at: Type.String({ format: "date-time", description: "RFC 3339, in UTC." }),
})
