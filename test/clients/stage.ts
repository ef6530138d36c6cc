import { expect } from "bun:test"
import {
  type CallRecord,
  EARLY_COMMENTS,
  endSound,
  PRICE,
  PROVIDER_KEY,
  startGateway,
  type TestGateway,
  until,
} from "../support/gateway.ts"
import { type Exchange, type Script, startProvider } from "../support/provider.ts"
import { ofFile } from "../support/test-gateway.ts"
import { Door } from "./door.ts"

/** What one client has to itself while it shows one thing: an account, models, a provider and a way to the gateway. */
export interface Cell {
  /** The gateway by this cell's own way, without `/v1`. */
  readonly url: string
  readonly key: string
  readonly key_id: string
  readonly account_id: string
  /** For chat completions. */
  readonly model: string
  /** For token counts. */
  readonly counter: string
  readonly door: Door
  /** What the provider answers to one call after the other; the last script answers all that follow. */
  answers(...scripts: Script[]): void
  /** The gateway itself, for whatever is not the client's doing. */
  readonly gateway: TestGateway
  readonly exchanges: readonly Exchange[]
  /** The n-th of them (from 1), as soon as it has begun. */
  exchange(number: number): Promise<Exchange>
  /** What the ledger says of its calls, the oldest first, once all of them are closed. */
  calls(): Promise<readonly CallRecord[]>
}

/** One gateway before one provider, with a corner for each cell: they do not see each other and can play at the same time. */
export async function openStage(cells: number) {
  const corners = new Map<string, (exchange: Exchange) => Promise<void> | void>()
  const provider = await startProvider()
  provider.reply((exchange) => {
    const [, corner = ""] = exchange.request.path.split("/")
    const answer = corners.get(corner)
    if (answer === undefined) throw new Error(`nobody plays in ${exchange.request.path}`)
    return answer(exchange)
  })
  const gateway = await startGateway(provider, { ...EARLY_COMMENTS, ...configurationOf(provider.url, cells) })
  const doors: Door[] = []

  /** One cell after the other, so that tests that begin at once do not all ask for accounts at once. */
  let made: Promise<unknown> = Promise.resolve()
  function cell(usd?: string): Promise<Cell> {
    const next = made.then(() => makeCell(usd))
    made = next.catch(() => {})
    return next
  }

  async function makeCell(usd = "1"): Promise<Cell> {
    const number = doors.length
    if (number >= cells) throw new Error("there are more cells than corners")
    const door = await Door.before(gateway)
    doors.push(door)
    const model = `chat-${number}`
    const counter = `count-${number}`
    const { id } = await gateway.account(usd)
    const own = await gateway.admin<{ id: string; key: string }>("POST", `/accounts/${id}/keys`, {
      models: [model, counter],
    })
    let scripts: readonly Script[] = []
    const exchanges: Exchange[] = []
    const waiting = new Map<number, (exchange: Exchange) => void>()
    corners.set(`corner-${number}`, (exchange) => {
      exchanges.push(exchange)
      waiting.get(exchanges.length)?.(exchange)
      const script = scripts[Math.min(exchanges.length, scripts.length) - 1]
      if (script === undefined) throw new Error(`corner ${number} has no script`)
      return script(exchange)
    })
    return {
      url: door.url,
      key: own.key,
      key_id: own.id,
      account_id: id,
      model,
      counter,
      door,
      answers: (...next) => {
        scripts = next
      },
      gateway,
      exchanges,
      async exchange(number) {
        const begun = exchanges[number - 1]
        return begun ?? (await new Promise((resolve) => waiting.set(number, resolve)))
      },
      calls: () => closedCalls(gateway, id),
    }
  }

  return {
    gateway,
    cell,
    /** Fails unless the ledger is exact, nobody holds anything and no secret of the provider was logged. */
    async close() {
      await endSound(gateway, provider)
      for (const door of doors) await door.stop()
      expect(gateway.lines.filter((line) => line.includes(PROVIDER_KEY))).toEqual([])
    },
  }
}

/** The stage of a test file, closed after its last test. */
export const testStage = (cells: number) => ofFile(openStage(cells))

export type Stage = Awaited<ReturnType<typeof openStage>>

async function closedCalls(gateway: TestGateway, account_id: string): Promise<readonly CallRecord[]> {
  const calls = await until(
    () => gateway.calls(`?account=${account_id}`),
    (seen) => seen.every(({ state }) => state !== "open"),
  )
  return calls.toReversed()
}

/** A corner has upstreams of its own, so that no breaker opens for others. */
function configurationOf(provider_url: string, cells: number) {
  const numbers = Array.from({ length: cells }, (_, number) => number)
  const upstream = (number: number, family: "chat" | "messages") => ({
    family,
    base_url: `${provider_url}/corner-${number}${family === "chat" ? "/v1" : ""}`,
    api_key: PROVIDER_KEY,
  })
  const model = (number: number, family: "chat" | "messages", name: string) => ({
    name,
    family,
    upstreams: [{ use: `${family}-${number}`, model: "provider-model" }],
    price: PRICE,
    max_output_tokens: 1000,
  })
  return {
    upstreams: Object.fromEntries(
      numbers.flatMap((number) => [
        [`chat-${number}`, upstream(number, "chat")],
        [`messages-${number}`, upstream(number, "messages")],
      ]),
    ),
    models: numbers.flatMap((number) => [
      model(number, "chat", `chat-${number}`),
      model(number, "messages", `count-${number}`),
    ]),
    limits: { per_key: { in_flight: PLACES } },
  }
}

/** Calls that one key may have running at a time. */
export const PLACES = 3
