import { FormatRegistry, type Static, type TSchema } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { readVariable, type Sources, withoutSlashes } from "../config/values.ts"
import { type DemoAccess, demoAccessPath, parseDemoAccess } from "../demo-access.ts"
import { catalogue } from "../errors.ts"
import { parseId } from "../id.ts"
import type { ShardAddress } from "../ledger/shards.ts"
import { findShards } from "../setup.ts"
import { parseTime } from "../wire/time.ts"
import { isObject } from "../wire/usage.ts"
import { CliError, UnknownOutcomeError, UsageError } from "./cli-error.ts"
import { visible } from "./screen.ts"

/** What an admin command talks to: a running gateway, or the database directly (D52). */
export type Target =
  | { readonly kind: "gateway"; readonly url: string; readonly token: string; readonly from: TokenSource }
  /** `data_dir` is where its gateways on this machine have their spool. */
  | { readonly kind: "database"; readonly url: string; readonly data_dir: string }
  /** The shards of the configuration (D74). */
  | { readonly kind: "shards"; readonly shards: readonly ShardAddress[]; readonly data_dir: string }
  /** The embedded database of the gateway that runs on this data directory. */
  | { readonly kind: "embedded"; readonly data_dir: string }

/** Where the token comes from: the environment, or the file that a demo wrote. */
type TokenSource = "environment" | "demo"

/** The flags that select the target; null if not given. */
export interface Wanted {
  readonly url: string | null
  readonly database: boolean
  readonly data_dir: string | null
}

export const DEFAULT_URL = "http://127.0.0.1:8080"

/**
 * Flags override environment variables, which override the demo's file in the data directory. Secrets are never flags,
 * because every user of the machine can read the arguments of a running process.
 */
export function findTarget(wanted: Wanted, sources: Sources): Target {
  const { env } = sources
  const data_dir = wanted.data_dir ?? (env.TOLLGATE_DATA_DIR || ".tollgate")
  if (wanted.database) {
    if (wanted.url !== null) throw new UsageError("--url and --database cannot be combined")
    if (wanted.data_dir !== null) return { kind: "embedded", data_dir }
    const url = secret("DATABASE_URL", sources)
    if (url !== null) return { kind: "database", url, data_dir }
    const shards = shardsIn(sources)
    return shards.length > 0 ? { kind: "shards", shards, data_dir } : { kind: "embedded", data_dir }
  }
  const named = wanted.url ?? (env.TOLLGATE_URL || null)
  if (named !== null && !isAddress(named)) {
    const name = wanted.url === null ? "TOLLGATE_URL" : "--url"
    throw new UsageError(`${name}: expected the address of a gateway, such as ${DEFAULT_URL}`)
  }
  const token = secret("TOLLGATE_ADMIN_TOKEN", sources)
  if (token !== null) return { kind: "gateway", url: named ?? DEFAULT_URL, token, from: "environment" }
  const demo = demoAccessIn(data_dir, sources)
  if (demo !== null && (named === null || new URL(named).origin === new URL(demo.url).origin)) {
    return { kind: "gateway", url: demo.url, token: demo.admin_token, from: "demo" }
  }
  throw new CliError(
    `no admin token for ${named ?? DEFAULT_URL}, and no demo is running in ${data_dir}: set TOLLGATE_ADMIN_TOKEN or TOLLGATE_ADMIN_TOKEN_FILE, or use the database directly with --database`,
  )
}

function shardsIn(sources: Sources): readonly ShardAddress[] {
  try {
    return findShards(sources)
  } catch (error) {
    throw new CliError(error instanceof Error ? error.message : String(error))
  }
}

function isAddress(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return (
    ["http:", "https:"].includes(protocol) && [username, password, search, hash].every((part) => part === "")
  )
}

function demoAccessIn(data_dir: string, { readFile }: Sources): DemoAccess | null {
  try {
    return parseDemoAccess(readFile(demoAccessPath(data_dir)))
  } catch {
    return null
  }
}

function secret(name: string, sources: Sources): string | null {
  const variable = readVariable(name, sources)
  switch (variable.state) {
    case "set":
      return variable.text
    case "unset":
      return null
    case "unreadable":
      throw new UsageError(`${name}_FILE: expected the path of a readable, non-empty file`)
    case "set twice":
      throw new UsageError(`${name} and ${name}_FILE are both set: unset one of them`)
  }
}

/** Longer than the gateway's own deadlines for database queries, of which an audit's is the longest. */
const DEADLINE_MS = 60_000

/** Error codes of Bun's fetch and of the system that mean: no connection was made, so nothing was sent. */
const UNSENT = ["ConnectionRefused", "FailedToOpenSocket", "ECONNREFUSED", "ENOTFOUND"]

/** `fetch`, or a function that answers like it. */
export type Send = (request: Request) => Promise<Response>

/** A client of the `/admin` API, over HTTP or directly over the database. */
export class AdminClient {
  readonly #target: Target
  readonly #base: string
  readonly #token: string
  readonly #send: Send
  readonly #close: () => Promise<void>

  constructor(options: {
    target: Target
    base: string
    token: string
    send: Send
    close: () => Promise<void>
  }) {
    knowFormats()
    this.#target = options.target
    this.#base = withoutSlashes(options.base)
    this.#token = options.token
    this.#send = options.send
    this.#close = options.close
  }

  get<S extends TSchema>(path: string, schema: S): Promise<Static<S>> {
    return this.#ask("GET", path, schema)
  }

  post<S extends TSchema>(path: string, body: object, schema: S): Promise<Static<S>> {
    return this.#ask("POST", path, schema, body)
  }

  patch<S extends TSchema>(path: string, body: object, schema: S): Promise<Static<S>> {
    return this.#ask("PATCH", path, schema, body)
  }

  /** For operations that answer without a body. */
  async delete(path: string): Promise<void> {
    await this.#answer("DELETE", path)
  }

  /** The lines of JSON of an answer that may take as long as it likes, as they come. */
  async *lines<S extends TSchema>(path: string, schema: S): AsyncGenerator<Static<S>> {
    const response = await this.#requested("GET", path)
    if (!response.ok || response.body === null)
      throw this.#failureOf(response, await response.json().catch(() => undefined))
    for await (const line of linesIn(response.body)) {
      const value = parsed(line)
      if (!Value.Check(schema, value)) throw this.#unknown("GET", path)
      yield value
    }
  }

  close(): Promise<void> {
    return this.#close()
  }

  async #ask<S extends TSchema>(method: string, path: string, schema: S, body?: object): Promise<Static<S>> {
    const answer = await this.#answer(method, path, body)
    if (Value.Check(schema, answer)) return answer
    throw this.#unknown(method, path)
  }

  async #answer(method: string, path: string, body?: object): Promise<unknown> {
    const response = await this.#requested(method, path, {
      signal: AbortSignal.timeout(DEADLINE_MS),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const answer = response.status === 204 ? null : await response.json().catch(() => undefined)
    if (response.ok && answer !== undefined) return answer
    throw this.#failureOf(response, answer)
  }

  #requested(method: string, path: string, more: RequestInit = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${this.#token}`, "content-type": "application/json" }
    return this.#sent(
      new Request(`${this.#base}/admin${path}`, { method, headers, redirect: "manual", ...more }),
    )
  }

  #failureOf(response: Response, answer: unknown): CliError {
    const reason = this.#reasonOf(response, answer)
    return response.status < 500 ? new CliError(reason) : new UnknownOutcomeError(reason)
  }

  #unknown(method: string, path: string): UnknownOutcomeError {
    return new UnknownOutcomeError(
      `${this.#name()} returned an unknown response to ${method} /admin${path}: check that it has the same version as this command`,
    )
  }

  async #sent(request: Request): Promise<Response> {
    try {
      return await this.#send(request)
    } catch (error) {
      if (error instanceof CliError) throw error
      if (wasUnsent(error)) {
        throw new CliError(
          `no gateway is running at ${this.#base}: start one with "tollgate serve", set another address with --url, or use the database directly with --database`,
        )
      }
      const reason = error instanceof Error ? error.message : String(error)
      throw new UnknownOutcomeError(`no response from the gateway at ${this.#base}: ${visible(reason)}`)
    }
  }

  /** The message of the error, and what to do if only the command line can know it. */
  #reasonOf(response: Response, answer: unknown): string {
    const said = messageOf(answer)
    if (said === null)
      return `the server at ${this.#base} is not a Tollgate gateway (status ${response.status})`
    if (response.status === 401) return `${said} ${this.#tokenHint()}`
    if (said !== catalogue.not_found.message) return said
    return `the gateway at ${this.#base} has no /admin: its TOLLGATE_ADMIN_TOKEN is not set, or /admin has its own address, which you can set with --url`
  }

  #tokenHint(): string {
    return this.#target.kind === "gateway" && this.#target.from === "demo"
      ? "The token of the demo does not belong to the gateway that runs now: set TOLLGATE_ADMIN_TOKEN."
      : "Set TOLLGATE_ADMIN_TOKEN to the token of this gateway."
  }

  #name(): string {
    return this.#target.kind === "gateway" ? `the gateway at ${this.#base}` : "this Tollgate"
  }
}

async function* linesIn(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  let text = ""
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const lines = (text + chunk).split("\n")
    text = lines.pop() ?? ""
    yield* lines
  }
  if (text !== "") yield text
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function wasUnsent(error: unknown): boolean {
  return error instanceof Error && "code" in error && UNSENT.some((code) => code === error.code)
}

/** The message in an error of D16. */
function messageOf(answer: unknown): string | null {
  if (!isObject(answer) || !isObject(answer.error)) return null
  const { message } = answer.error
  return typeof message === "string" ? visible(message) : null
}

/** Opens the admin client for the target. */
export async function openAdminClient(target: Target): Promise<AdminClient> {
  if (target.kind === "gateway") {
    const { url, token } = target
    return new AdminClient({ target, base: url, token, send: fetch, close: async () => {} })
  }
  // Loaded on demand: a command that uses HTTP starts faster without the database driver and the routes.
  const { openDirectDatabase } = await import("./direct-database.ts")
  return new AdminClient({ target, ...(await openDirectDatabase(target)) })
}

/** Registers the string formats of the API. TypeBox knows none by itself and rejects values with an unknown format. */
export function knowFormats(): void {
  FormatRegistry.Set("uuid", (text) => parseId(text) !== null)
  FormatRegistry.Set("date-time", (text) => parseTime(text) !== null)
}
