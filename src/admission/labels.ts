import type { Family } from "../config/config.ts"
import { catalogue, GatewayError } from "../errors.ts"
import type { Labelled, Owner } from "../ledger/entries.ts"
import type { Tags } from "../wire/call.ts"
import type { FieldTexts } from "../wire/json.ts"
import { isTagName, isTagValue, MAX_TAGS } from "../wire/labels.ts"
import { isObject } from "../wire/usage.ts"
import { endUserName, MAX_END_USER, nameIn, withoutSession } from "./end-user.ts"

/** The end user and the tags of a call (D94), from the client and from the labels and rules of its key. */

const TAGS_HEADER = "x-tollgate-tags"
const END_USER_HEADER = "x-tollgate-end-user"
/** Twice the length of the longest list of tags, because of blanks. */
const MAX_TAGS_HEADER = 2_048

const PRINTABLE = /^[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?$/

/** A client's texts about its call. They are used only if the key accepts them. */
export interface ClientLabels {
  readonly tags: string | null
  readonly end_user: string | null
  readonly texts: Pick<FieldTexts, "value" | "names">
  readonly family: Family
}

/** Null for a request that names neither. */
export function clientLabelsOf(headers: Headers, texts: FieldTexts, family: Family): ClientLabels | null {
  const tags = headers.get(TAGS_HEADER)
  const end_user = headers.get(END_USER_HEADER)
  const field = FIELDS[family].find((name) => texts.names.includes(name))
  return tags === null && end_user === null && field === undefined ? null : { tags, end_user, texts, family }
}

/** The fields of a body that may name the end user, in the order in which they count. */
const FIELDS = {
  chat: ["safety_identifier", "user"],
  messages: ["metadata"],
} as const satisfies Record<Family, readonly string[]>

/** A call's labels; null for none. Throws `invalid_request`, `tag_not_declared` or `tag_required`. */
export function labelledOf(
  { account_id, tag_rules }: Owner,
  client: ClientLabels | null,
  declared: readonly string[],
): Labelled | null {
  if (client === null && tag_rules === undefined) return null
  const fixed = tag_rules?.labels ?? NONE
  const read = tag_rules?.ignores_client_tags === true ? null : client
  const sent = read?.tags == null ? NONE : sentTags(read.tags, fixed, declared)
  const missing = tag_rules?.required_tags.find(
    (name) => !Object.hasOwn(sent, name) && !Object.hasOwn(fixed, name),
  )
  if (missing !== undefined)
    throw new GatewayError("tag_required", {
      message: `${catalogue.tag_required.message} Missing: ${missing}.`,
      param: TAGS_HEADER,
      fields: { tag: missing },
    })
  const end_user = read === null ? null : endUserOf(read)
  if (end_user === null && isEmpty(sent) && isEmpty(fixed)) return null
  return { account_id, end_user, fixed, sent }
}

const NONE: Tags = {}

function isEmpty(tags: Tags): boolean {
  for (const _ in tags) return false
  return true
}

/** The client's tags, without those that repeat a label of the key. */
function sentTags(header: string, fixed: Tags, declared: readonly string[]): Tags {
  if (header.length > MAX_TAGS_HEADER) throw malformed(`has more than ${MAX_TAGS_HEADER} characters`)
  const tags: Record<string, string> = {}
  const parts = header.split(",").map((part) => part.trim())
  if (parts.length > MAX_TAGS) throw malformed(`has more than ${MAX_TAGS} tags`)
  for (const part of parts) {
    const [name = "", value = "", ...rest] = part.split("=")
    if (!isTagName(name) || !isTagValue(value) || rest.length > 0)
      throw malformed("is not a list such as team=search,feature=rag")
    if (Object.hasOwn(tags, name)) throw malformed(`has the tag ${name} twice`)
    if (Object.hasOwn(fixed, name)) {
      if (fixed[name] !== value) throw malformed(`has another ${name} than the label of the key`)
    } else if (declared.includes(name)) tags[name] = value
    else
      throw new GatewayError("tag_not_declared", {
        message: `${catalogue.tag_not_declared.message} Unknown: ${name}.`,
        param: TAGS_HEADER,
        fields: { tag: name },
      })
  }
  return tags
}

function malformed(what: string): GatewayError {
  return new GatewayError("invalid_request", {
    param: TAGS_HEADER,
    message: `The ${TAGS_HEADER} header ${what}. A name has up to 64 of a-z 0-9 _ . - and begins with a letter; a value has up to 64 letters, digits and _ . : / @ + -.`,
  })
}

function endUserOf({ end_user, texts, family }: ClientLabels): string | null {
  if (end_user !== null) {
    if (PRINTABLE.test(end_user)) return end_user
    throw new GatewayError("invalid_request", {
      param: END_USER_HEADER,
      message: `The ${END_USER_HEADER} header must be 1 to ${MAX_END_USER} printable ASCII characters.`,
    })
  }
  if (family === "chat") {
    const named = nameIn(texts.value("safety_identifier")) ?? nameIn(texts.value("user"))
    return named === null ? null : endUserName(named)
  }
  const metadata = texts.value("metadata")
  const user_id = isObject(metadata) ? nameIn(metadata.user_id) : null
  return user_id === null ? null : endUserName(withoutSession(user_id))
}
