import { parseId } from "../id.ts"
import { CliError, UsageError } from "./cli-error.ts"
import { parseMoment } from "./moment.ts"

/** Reads words that several commands take: ids and names of resources, times, and pairs of a name and a value. */

export const REASON = { "--reason <TEXT>": "the reason, recorded in the journal" } as const

/** The time for which a price is set. */
export const SPAN = {
  "--from <TIME>": "when it begins: 2027-01-01, an RFC 3339 time, or 48h (default: now)",
  "--until <TIME>": "when it ends (default: when you end it)",
} as const

export const RETRY_ID = {
  "--id <UUID>": "an id of your own: a retry with the same id changes nothing more",
} as const

/** An id that was typed. `hint` says where to find one. */
export function idOf(word: string, what: string, hint: string): string {
  const id = parseId(word)
  if (id !== null) return id
  throw new UsageError(`"${word}" is not ${what} id: ${hint}`)
}

interface NamedBody {
  readonly id: string
  readonly name: string
  readonly external_id?: string | null
  readonly revoked_at?: string | null
}

/** The id of the resource that a word names, revoked ones left out. An ambiguous name is an error; an unknown one throws `Fault` (D109). */
export async function idNamed(
  word: string,
  what: string,
  command: string,
  list: () => Promise<{ readonly data: readonly NamedBody[] }>,
  Fault: typeof CliError | typeof UsageError = CliError,
): Promise<string> {
  const id = parseId(word)
  if (id !== null) return id
  const { data } = await list()
  const named = data.filter((one) => (one.name === word || one.external_id === word) && !one.revoked_at)
  const ids = named.map((one) => one.id)
  const [only, ...others] = ids
  if (only === undefined)
    throw new Fault(`no ${what} is named "${word}": "tollgate ${command}" lists all ${what}s`)
  if (others.length === 0) return only
  throw new CliError(
    `${ids.length} ${what}s are named "${word}": use the id of one of them: ${ids.join(", ")}`,
  )
}

/** A time in the past that was typed, in RFC 3339. */
export function timeOf(flag: string, text: string): string {
  const time = parseMoment(text, Date.now())
  if (time === null) throw new UsageError(`${flag}: expected 2026-11-21, an RFC 3339 time, or 24h`)
  return time
}

/** A time to come that was typed, in RFC 3339; undefined if none was. */
export function timeAhead(flag: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const time = parseMoment(text, Date.now(), "ahead")
  if (time === null) throw new UsageError(`${flag}: expected 2027-12-31, an RFC 3339 time, or 30d`)
  return time
}

/** The pairs of `A=B,C=D`; none for no text. `form` is what the flag expects. */
export function pairsIn(flag: string, text: string | undefined, form: string): [string, string][] {
  const pairs = text === undefined ? [] : text.split(",")
  return pairs.map((pair) => {
    const [name = "", value = ""] = pair.split(/=(.*)/s, 2).map((part) => part.trim())
    if (name === "" || value === "") throw new UsageError(`${flag}: expected ${form}`)
    return [name, value]
  })
}
