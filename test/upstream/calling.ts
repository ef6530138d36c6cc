import { afterEach, beforeEach, describe } from "bun:test"
import type { Socket } from "bun"
import type { Route, Upstream } from "../../src/config/config.ts"
import { GatewayError } from "../../src/errors.ts"
import { chat } from "../../src/operations/chat.ts"
import { CircuitBreakers } from "../../src/upstream/circuit-breakers.ts"
import { type Attempts, forward, type Outgoing } from "../../src/upstream/forward.ts"
import { Opening, type ServerOrigin } from "../../src/upstream/http/opening.ts"
import type { SocketOwner } from "../../src/upstream/http/socket.ts"
import type { ConnectFailed } from "../../src/upstream/http/transport.ts"
import type { Body } from "../../src/upstream/reply.ts"
import { chatCompletion, json, type Provider, type Script, startProvider } from "../support/provider.ts"
import { thrown } from "../support/thrown.ts"
import { anUpstream, type UpstreamParts } from "../support/upstream.ts"

/** What the tests of this room call with. */

export const API_KEY = "sk-upstream-canary-7f3a"

/** The providers of a test, in the files that ask for them. */
export let first: Provider
export let second: Provider

/** Gives each test of a file two providers of its own. */
export function newProviders(): void {
  beforeEach(async () => {
    first = await startProvider()
    second = await startProvider()
  })
  afterEach(async () => {
    await first.stop()
    await second.stop()
  })
}

type Transport = Upstream["transport"]

/** What `upstream` says if a test does not. */
let through: Transport = "direct"

/** A block of tests that hold for both transports (D59). */
export function describeBoth(name: string, body: (transport: Transport) => void): void {
  describe.each<Transport>(["direct", "fetch"])(`${name} (%s)`, (transport) => {
    beforeEach(() => {
      through = transport
    })
    afterEach(() => {
      through = "direct"
    })
    body(transport)
  })
}

export function upstream(base_url: string, overrides: UpstreamParts = {}): Upstream {
  return anUpstream({
    name: "first",
    base_url,
    api_key: API_KEY,
    transport: through,
    timeouts: { connect_ms: 5_000, first_byte_ms: 5_000, idle_ms: 5_000, total_ms: 5_000 },
    ...overrides,
  })
}

export function routes(first: Upstream, ...others: Upstream[]): [Route, ...Route[]] {
  const route = (upstream: Upstream, priority: number) => ({
    upstream,
    model: `model-of-${upstream.name}`,
    priority,
    weight: 1,
  })
  return [route(first, 0), ...others.map((upstream, at) => route(upstream, at + 1))]
}

export function outgoing(overrides: Partial<Outgoing> = {}): Outgoing {
  return {
    request_id: "0199-request",
    account_id: "0199-account",
    affinity: null,
    path: "/chat/completions",
    stream: false,
    body: ({ model }) => [JSON.stringify({ model, messages: [] })],
    headers: {},
    refusals: chat.refusals,
    signal: new AbortController().signal,
    ...overrides,
  }
}

/** A call over these routes: with circuit breakers of its own, unless a test has some. */
export function send(
  over: readonly [Route, ...Route[]],
  call: Partial<Outgoing> = {},
  breakers = new CircuitBreakers(),
  attempts?: Attempts,
) {
  return forward(over, outgoing(call), breakers, attempts)
}

/** Deadlines that a test may wait for. */
export const hasty = { timeouts: { connect_ms: 5_000, first_byte_ms: 60, idle_ms: 5_000, total_ms: 120 } }

export const answers: Script = json(200, chatCompletion("Hi."))
export const resets: Script = (exchange) => exchange.reset()
export const closes: Script = (exchange) => exchange.close()

/** Sends these bytes and closes. */
export function raw(text: string): Script {
  return async (exchange) => {
    await exchange.raw(text)
    exchange.close()
  }
}

export async function failure(call: Promise<unknown>): Promise<GatewayError> {
  const error = await thrown(call)
  if (!(error instanceof GatewayError)) throw error
  return error
}

/** The address that a connection has got, or why there is none; the names that are looked up are `asked`. */
export function opened(
  origin: ServerOrigin,
  addresses: readonly string[],
  asked: string[] = [],
): Promise<string | ConnectFailed> {
  return new Promise((resolve) => {
    const lookUp = async (hostname: string) => {
      asked.push(hostname)
      return addresses
    }
    const open = (socket: Socket<SocketOwner>) => {
      resolve(socket.remoteAddress)
      socket.terminate()
    }
    new Opening(origin, 5_000, { open, fail: resolve }, lookUp)
  })
}

/** The whole of a reply's body. */
export async function textOf(body: Body): Promise<string> {
  return Buffer.from(await body.bytes()).toString()
}
