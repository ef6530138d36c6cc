import { expect } from "bun:test"
import type { Answer } from "../support/answer.ts"
import { ended } from "../support/ended.ts"
import {
  ADMIN_TOKEN,
  CHAT,
  type ConfigChanges,
  endSound,
  MESSAGES,
  PROVIDER_KEY,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts"
import { chatCompletion, json, type Provider, startProvider, usage } from "../support/provider.ts"
import { dial, type RawClient } from "../support/raw-client.ts"
import { type Draft, jsonDraft, requestBytes } from "../support/request.ts"
import { ofFile } from "../support/test-gateway.ts"

/** Planted in prompts, names and headers: neither an answer nor a line of the log may hold it. */
export const CANARY = "canary-2f9c41"

/** What the provider answers unless a test says otherwise. */
const completes = json(200, chatCompletion("hello there", { usage: usage(10, 5) }))
const counts = json(200, { input_tokens: 7 })

/** A whole gateway between a scripted provider and raw-socket clients, and everything it ever said. */
export interface Harness {
  readonly gateway: TestGateway
  readonly provider: Provider
  /** The answer to one request on a connection of its own. */
  ask(draft: Draft): Promise<Answer>
  /** The answer to whatever these bytes are. */
  say(bytes: string | Uint8Array, method?: string): Promise<Answer>
  /** A connection that the test leads by itself; `note` its answers. */
  dial(): RawClient
  note(answer: Answer): Answer
  /** `POST /v1/chat/completions` of a short prompt; `fields` replaces and adds. */
  chat(key: string, fields?: object, headers?: readonly string[]): Promise<Answer>
  /** `POST /v1/messages/count_tokens` of a short prompt. */
  count(key: string, fields?: object, headers?: readonly string[]): Promise<Answer>
  /** A new account with `usd` and a key of it. */
  account(usd?: string): Promise<{ id: string; key: string; key_id: string }>
  /** A further key of an account, such as one with `models` or `expires_at`. */
  key(account_id: string, limits: object): Promise<{ id: string; key: string }>
  /** Runs `work`, and fails unless it left no trace: no call, no hold, no charge, no request to the provider. */
  untouched(account_id: string, work: () => Promise<void>): Promise<void>
  /** Drains; fails when the ledger is not exact or a secret was said. */
  close(): Promise<void>
}

/** `changes` may depend on where the provider is. */
export async function openHarness(
  changes: ConfigChanges | ((provider_url: string) => ConfigChanges) = {},
): Promise<Harness> {
  const provider = await startProvider()
  provider.reply((exchange) =>
    (exchange.request.path.endsWith("/count_tokens") ? counts : completes)(exchange),
  )
  const gateway = await startGateway(
    provider,
    typeof changes === "function" ? changes(provider.url) : changes,
  )
  const answers: Answer[] = []
  const secrets = [CANARY, PROVIDER_KEY, ADMIN_TOKEN]

  const note = (answer: Answer): Answer => {
    answers.push(answer)
    return answer
  }
  async function say(bytes: string | Uint8Array, method = "GET"): Promise<Answer> {
    const line = dial(gateway)
    const asked_ms = performance.now()
    line.send(bytes)
    const answer = note(await line.answer(method))
    await ended(gateway, { id: answer.headers["x-request-id"], status: answer.status }, asked_ms)
    line.leave()
    return answer
  }
  const ask = (draft: Draft) => say(requestBytes(draft), draft.method)

  return {
    gateway,
    provider,
    ask,
    say,
    dial: () => dial(gateway),
    note,
    chat: (key, fields, headers) => ask(chatDraft(key, fields, headers)),
    count: (key, fields, headers) => ask(countDraft(key, fields, headers)),
    async account(usd) {
      const account = await gateway.account(usd)
      secrets.push(account.key)
      return account
    },
    async key(account_id, limits) {
      const made = await gateway.admin<{ id: string; key: string }>(
        "POST",
        `/accounts/${account_id}/keys`,
        limits,
      )
      secrets.push(made.key)
      return made
    },
    async untouched(account_id, work) {
      const state = async () => ({
        account: await gateway.balance(account_id),
        calls: (await gateway.calls()).length,
        requests: provider.requests.length,
      })
      const before = await state()
      await work()
      expect(await state()).toEqual(before)
    },
    async close() {
      await endSound(gateway, provider)
      const said = [...answers.map(({ headers, body }) => JSON.stringify(headers) + body), ...gateway.lines]
      expect(said.filter((text) => secrets.some((secret) => text.includes(secret)))).toEqual([])
    },
  }
}

/** The harness of a test file, closed after its last test. */
export const testHarness = (...options: Parameters<typeof openHarness>) => ofFile(openHarness(...options))

/** What `chatBody()` holds, in USD: the 43 bytes of its messages at 1,000 nano-USD, 1,000 output tokens at 4,000. */
export const HELD = "0.004043"

/** A chat request whose prompt holds the canary. */
export function chatDraft(key: string, fields: object = {}, headers: readonly string[] = []): Draft {
  return jsonDraft(key, "/v1/chat/completions", chatBody(fields), headers)
}

/** A token count whose prompt holds the canary. */
export function countDraft(
  key: string,
  fields: object = {},
  headers: readonly string[] = ["anthropic-version: 2023-06-01"],
): Draft {
  return {
    method: "POST",
    target: "/v1/messages/count_tokens",
    headers: [`x-api-key: ${key}`, "content-type: application/json", ...headers],
    body: countBody(fields),
  }
}

export function chatBody(fields: object = {}): object {
  return { model: CHAT, messages: [{ role: "user", content: CANARY }], ...fields }
}

export function countBody(fields: object = {}): object {
  return { model: MESSAGES, messages: [{ role: "user", content: CANARY }], ...fields }
}
