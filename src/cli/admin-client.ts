import { FormatRegistry, type Static, type TSchema } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { withoutSlashes } from "../config/values.ts"
import { catalogue } from "../errors.ts"
import { parseId } from "../id.ts"
import { parseTime } from "../wire/time.ts"
import { objectOf, parseJson } from "../wire/usage.ts"
import { CliError, reasonOf, UnknownOutcomeError } from "./cli-error.ts"
import { visible } from "./screen.ts"
import type { Target } from "./target.ts"

/** Longer than the gateway's own deadlines for database queries, of which an audit's is the longest. */
const DEADLINE_MS = 60_000

/** Error codes of Bun's fetch and of the system that mean: no connection was made, so nothing was sent. */
const UNSENT: readonly unknown[] = ["ConnectionRefused", "FailedToOpenSocket", "ECONNREFUSED", "ENOTFOUND"]

/** `fetch`, or a function that answers like it. */
export type Send = (request: Request) => Promise<Response>

interface AdminConnection {
  readonly base: string
  readonly token: string
  readonly send: Send
  readonly close: () => Promise<void>
}

/** The parameters of a query string. Those that are undefined are left out. */
export type Query = Readonly<Record<string, string | undefined>>

function withQuery(path: string, query: Query): string {
  const given = Object.entries(query).flatMap(([name, text]): [string, string][] =>
    text === undefined ? [] : [[name, text]],
  )
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`
}

export type AdminClient = ReturnType<typeof adminClient>

/** A client of the `/admin` API, over HTTP or directly over the database. `reason`: for changes, which the log shows (D102). */
function adminClient(target: Target, { token, close, ...connection }: AdminConnection, reason?: string) {
  knowFormats()
  const base = withoutSlashes(connection.base)

  /** Sends a request, and throws unless it succeeds. */
  async function request(method: string, path: string, more: RequestInit = {}): Promise<Response> {
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      ...(reason !== undefined && { "x-tollgate-reason": encodeURIComponent(reason) }),
    }
    const url = `${base}/admin${path}`
    const response = await send(new Request(url, { method, headers, redirect: "manual", ...more }))
    if (response.ok) return response
    const words = reasonIn(response.status, await response.json().catch(() => undefined))
    throw response.status < 500 ? new CliError(words) : new UnknownOutcomeError(words)
  }

  async function send(request: Request): Promise<Response> {
    try {
      return await connection.send(request)
    } catch (error) {
      if (error instanceof CliError) throw error
      if (error instanceof Error && "code" in error && UNSENT.includes(error.code))
        throw new CliError(
          `no gateway is running at ${base}: start one with "tollgate serve", set another address with --url, or use the database directly with --database`,
        )
      const reason = visible(reasonOf(error))
      throw new UnknownOutcomeError(`no response from the gateway at ${base}: ${reason}`)
    }
  }

  /** The message of the error (D16), and what to do if only the command line can know it. */
  function reasonIn(status: number, answer: unknown): string {
    const { message } = objectOf(objectOf(answer).error)
    if (typeof message !== "string")
      return `the server at ${base} is not a Tollgate gateway (status ${status})`
    if (status === 401) return `${visible(message)} ${tokenHint(target)}`
    if (message !== catalogue.not_found.message) return visible(message)
    return `the gateway at ${base} has no /admin: its TOLLGATE_ADMIN_TOKEN is not set, or /admin has its own address, which you can set with --url`
  }

  function checked<S extends TSchema>(method: string, path: string, schema: S, answer: unknown): Static<S> {
    if (Value.Check(schema, answer)) return answer
    const name = target.kind === "gateway" ? `the gateway at ${base}` : "this Tollgate"
    throw new UnknownOutcomeError(
      `${name} returned an unknown response to ${method} /admin${path}: check that it has the same version as this command`,
    )
  }

  async function answered<S extends TSchema>(method: string, path: string, schema: S, body?: object) {
    const response = await request(method, path, {
      signal: AbortSignal.timeout(DEADLINE_MS),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const answer = await response.json().catch(() => undefined)
    return { answer: checked(method, path, schema, answer), is_new: response.status === 201 }
  }

  const ask = async <S extends TSchema>(...args: [string, string, S, object?]) =>
    (await answered(...args)).answer

  return {
    close,
    get: <S extends TSchema>(path: string, schema: S, query: Query = {}) =>
      ask("GET", withQuery(path, query), schema),
    post: <S extends TSchema>(path: string, body: object, schema: S) => ask("POST", path, schema, body),
    patch: <S extends TSchema>(path: string, body: object, schema: S) => ask("PATCH", path, schema, body),
    /** As `post`, and whether this request made it (201), not an earlier one. */
    make: <S extends TSchema>(path: string, body: object, schema: S) => answered("POST", path, schema, body),
    async delete(path: string): Promise<void> {
      await request("DELETE", path, { signal: AbortSignal.timeout(DEADLINE_MS) })
    },
    /** The lines of JSON of an answer that may take as long as it likes, as they come. */
    async *lines<S extends TSchema>(path: string, schema: S, query: Query): AsyncGenerator<Static<S>> {
      const { body } = await request("GET", withQuery(path, query))
      let rest = ""
      for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
        const lines = (rest + chunk).split("\n")
        rest = lines.pop() ?? ""
        for (const line of lines) yield checked("GET", path, schema, parseJson(line))
      }
      if (rest !== "") yield checked("GET", path, schema, parseJson(rest))
    },
  }
}

function tokenHint(target: Target): string {
  return target.kind === "gateway" && target.from === "demo"
    ? "The token of the demo does not belong to the gateway that runs now: set TOLLGATE_ADMIN_TOKEN."
    : "Set TOLLGATE_ADMIN_TOKEN to the token of this gateway."
}

export async function openAdminClient(target: Target, reason?: string): Promise<AdminClient> {
  if (target.kind === "gateway") {
    const { url, token } = target
    return adminClient(target, { base: url, token, send: fetch, close: async () => {} }, reason)
  }
  // Loaded on demand: a command that uses HTTP starts faster without the database driver and the routes.
  const { openDirectDatabase } = await import("./direct-database.ts")
  return adminClient(target, await openDirectDatabase(target), reason)
}

/** Registers the string formats of the API. TypeBox knows none by itself and rejects values with an unknown format. */
export function knowFormats(): void {
  FormatRegistry.Set("uuid", (text) => parseId(text) !== null)
  FormatRegistry.Set("date-time", (text) => parseTime(text) !== null)
}
