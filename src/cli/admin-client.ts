import { FormatRegistry, type Static, type TSchema } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { withoutSlashes } from "../config/values.ts"
import { catalogue } from "../errors.ts"
import { parseId } from "../id.ts"
import { parseTime } from "../wire/time.ts"
import { isObject } from "../wire/usage.ts"
import { CliError, UnknownOutcomeError } from "./cli-error.ts"
import { visible } from "./screen.ts"
import type { Target } from "./target.ts"

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

  close(): Promise<void> {
    return this.#close()
  }

  async #ask<S extends TSchema>(method: string, path: string, schema: S, body?: object): Promise<Static<S>> {
    const answer = await this.#answer(method, path, body)
    if (Value.Check(schema, answer)) return answer
    throw new UnknownOutcomeError(
      `${this.#name()} returned an unknown response to ${method} /admin${path}: check that it has the same version as this command`,
    )
  }

  async #answer(method: string, path: string, body?: object): Promise<unknown> {
    const response = await this.#sent(
      new Request(`${this.#base}/admin${path}`, {
        method,
        headers: { authorization: `Bearer ${this.#token}`, "content-type": "application/json" },
        redirect: "manual",
        signal: AbortSignal.timeout(DEADLINE_MS),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    )
    const answer = response.status === 204 ? null : await response.json().catch(() => undefined)
    if (response.ok && answer !== undefined) return answer
    const reason = this.#reasonOf(response, answer)
    throw response.status < 500 ? new CliError(reason) : new UnknownOutcomeError(reason)
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
