import type { Cell } from "./stage.ts"

/** What the user of a client sees of an answer. */
export interface Heard {
  readonly text: string
  /** Null when it shows none. */
  readonly tokens: Tokens | null
  /** USD, when it was asked for and shown. */
  readonly cost?: unknown
  /** Null when it shows none. */
  readonly request_id: string | null
  /** An error that it told of without throwing it. */
  readonly complaint?: unknown
}

/** A usage, in whichever words the client shows it. */
export interface Tokens {
  readonly prompt: number
  readonly cached: number
  readonly completion: number
}

export interface CallOptions {
  /** Aborted when the user leaves. */
  readonly signal?: AbortSignal
  readonly headers?: Readonly<Record<string, string>>
  /** Whether the user asks what it costs (D49). */
  readonly cost?: boolean
}

export interface StreamOptions extends CallOptions {
  /** Whether the user asks for the usage too. */
  readonly usage?: boolean
  /** Told of every piece of text that is not empty. */
  readonly onText?: (text: string) => void
}

export const FIELDS = ["status", "code", "type", "message", "request id"] as const
export type FieldName = (typeof FIELDS)[number]

export interface Changes {
  readonly key?: string
  readonly model?: string
}

/** A client that speaks to one cell's gateway. What it has no word for rejects. */
export interface Session {
  chat(options?: CallOptions): Promise<Heard>
  stream(options?: StreamOptions): Promise<Heard>
  /** Asks with the tool of weather.ts, runs it, sends its result and gives the last answer's text. */
  useTool(streamed: boolean): Promise<string>
  models(): Promise<string[]>
  count(): Promise<number>
}

const lacking = () => Promise.reject(new Error("this client has no word for it"))

/** What every session begins with. */
export const MUTE: Session = {
  chat: lacking,
  stream: lacking,
  useTool: lacking,
  models: lacking,
  count: lacking,
}

export interface Client {
  /** With its version: `openai 7.57.0`. */
  readonly name: string
  readonly family: "chat" | "messages"
  connect(cell: Cell, changes?: Changes): Session
  /** Where its error shows what, as its user writes it: `error.status`. */
  readonly shows: Readonly<Record<FieldName, string>>
  /** What the names in `shows` stand for, when `error` is not just what was thrown. */
  named?(thrown: unknown): Readonly<Record<string, unknown>>
  /** How often it repeats a call here, and what its user reads of that. */
  readonly repeats: { readonly times: number; readonly by_default: string }
  /** Whether `x-should-retry: false` keeps it from repeating. */
  readonly obeys_should_retry: boolean
  /** Whether it repeats a 429 that has no `Retry-After`. */
  readonly repeats_bare_429: boolean
  /** Why it has no word for something, by the method of its session. */
  readonly lacks: Partial<Record<keyof Session, string>>
}

/** What `client` shows of an error at each place it names; undefined where there is nothing. */
export function shownBy(client: Client, thrown: unknown): Record<FieldName, unknown> {
  const names = client.named?.(thrown) ?? { error: thrown }
  const { status, code, type, message, "request id": request_id } = client.shows
  return {
    status: valueAt(names, status),
    code: valueAt(names, code),
    type: valueAt(names, type),
    message: valueAt(names, message),
    "request id": valueAt(names, request_id),
  }
}

/** The value that `error.a["b"].c` has where `names` are known. */
function valueAt(names: unknown, place: string): unknown {
  const keys = [...place.matchAll(/(\w+)|\["([^"]+)"\]/g)].map(([, plain, quoted]) => plain ?? quoted ?? "")
  return keys.reduce<unknown>(
    (value, key) => (typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined),
    names,
  )
}

/** An error of `client` as its user tells it apart: by its own name, else by its class. */
export function classBy(client: Client, thrown: unknown): string {
  return nameOf(client.named?.(thrown).error ?? thrown)
}

/** What a client fails with; null when it does not. Their promises are lazy. */
export function failureOf(call: PromiseLike<unknown>): PromiseLike<unknown> {
  return call.then(
    () => null,
    (error: unknown) => error,
  )
}

/** An error as its user tells it apart: by its own name, else by its class. */
export function nameOf(error: unknown): string {
  if (!(error instanceof Error)) throw new Error("a client threw what is no error")
  return error.name === "Error" ? error.constructor.name : error.name
}

/** The version of an installed package. */
export async function versionOf(package_name: string): Promise<string> {
  const { version } = await Bun.file(
    `${import.meta.dir}/../../node_modules/${package_name}/package.json`,
  ).json()
  return String(version)
}

/** The field of a chat request that asks what it costs. */
export const WITH_COST = { usage: { include: true } }

export const PROMPT = "How is the weather?"
