import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { loadConfig } from "../../src/config/load.ts"
import type { Tracing } from "../../src/config/tracing.ts"
import { connect } from "../../src/ledger/database/address.ts"
import { connectDatabase } from "../../src/ledger/database/database.ts"
import { MAIN, openShards, type ShardAddress, type ShardDatabase } from "../../src/ledger/shards.ts"
import { openLog } from "../../src/log.ts"
import { openService } from "../../src/service/service.ts"
import type { OneOrMore } from "../../src/wire/list.ts"
import { freshDatabase } from "./database.ts"
import { undocumentedIn } from "./documented.ts"
import { ended } from "./ended.ts"
import { ADMIN_TOKEN, operatorOf } from "./operator.ts"

export { ADMIN_TOKEN, type CallRecord } from "./operator.ts"
export { until, untilIs } from "./until.ts"

/** Model names of the default configuration. */
export const CHAT = "chat-model"
export const MESSAGES = "messages-model"
/** Prices of `CHAT` in nano-USD per token: input 1,000, cached input 100, output 4,000. */
export const PRICE = { input: "1.00", cached_input: "0.10", output: "4.00" }
export const PROVIDER_KEY = "sk-provider-canary"

/** A model at the prices of `CHAT` over the provider of `configFor`, unless `fields` say otherwise. */
export function chatModel(name: string, fields: object = {}) {
  const upstreams = [{ use: "first", model: "upstream-model" }]
  return { name, family: "chat", upstreams, price: PRICE, max_output_tokens: 1000, ...fields }
}

/** Comments as by default: after 50 ms of a stream without output, so that a client has its headers. */
export const EARLY_COMMENTS = { stream: {} }

/** Sections of a configuration file; a section that is given replaces the default one. */
export type ConfigChanges = Readonly<Record<string, unknown>>

/** The configuration that a gateway gets in front of `provider_url`, as an object that is valid YAML when printed as JSON. */
export function configFor(provider_url: string, changes: ConfigChanges = {}): Record<string, unknown> {
  return {
    vendors: ["anthropic"],
    // On a busy machine any stream can be silent for the default of 50 ms, and begin with a comment then.
    stream: { commit_after: "60s" },
    upstreams: {
      first: { family: "chat", base_url: `${provider_url}/v1`, api_key: PROVIDER_KEY },
      counter: { family: "messages", base_url: provider_url, api_key: PROVIDER_KEY },
    },
    models: [
      chatModel(CHAT),
      chatModel(MESSAGES, { family: "messages", upstreams: [{ use: "counter", model: "upstream-counter" }] }),
    ],
    ...changes,
  }
}

/** A whole gateway on a real database and a real port, in this process; on a fresh database, unless shards are given. */
export async function startGateway(
  provider: { readonly url: string },
  changes: ConfigChanges = {},
  tracing: Tracing | null = null,
  given?: OneOrMore<ShardAddress>,
) {
  const { shards, address, drop } = given === undefined ? await oneFresh() : await opened(given)
  const data_dir = await mkdtemp(join(tmpdir(), "tollgate-test-"))
  const lines: string[] = []
  const log = openLog("trace", {}, { write: (text) => void lines.push(...text.trimEnd().split("\n")) })
  const load = (next: ConfigChanges) =>
    loadConfig(JSON.stringify(configFor(provider.url, next)), { env: {}, readFile: () => "" })
  const exited = Promise.withResolvers<number>()
  const config = load(changes)
  const service = await openService({
    config,
    shards,
    data_dir,
    admin_token: ADMIN_TOKEN,
    host: "127.0.0.1",
    port: 0,
    admin: config.admin,
    tracing,
    pushed_metrics: null,
    log,
    closeAfter: async () => void (await Promise.all(shards.map(({ database }) => database.close()))),
    exit: exited.resolve,
  })
  const url = `http://127.0.0.1:${service.server.port}`
  const sql = connect(address, { max: 1, onnotice: () => {} })

  async function remove(): Promise<void> {
    await sql.end()
    await drop()
    await rm(data_dir, { recursive: true, force: true })
  }

  return {
    ...operatorOf(url),
    url,
    address,
    /** A connection of a test to its first shard. */
    sql,
    service,
    data_dir,
    /** Every line of its log. */
    lines,
    /** Resolves with the exit code when a shutdown has ended. */
    exited: exited.promise,
    reload: (next: ConfigChanges) => service.reload(load(next)),
    /** Drains like a SIGTERM and drops the database. Fails if it gave an answer that the API reference does not have. */
    async stop() {
      const undocumented = undocumentedIn(await service.printMetrics())
      service.shutdown.signal()
      await exited.promise
      await remove()
      if (undocumented.length > 0) throw new Error(`not in the API reference: ${undocumented.join(", ")}`)
    },
    /** Removes what is left of a gateway that has ended. */
    remove,
  }
}

export type TestGateway = Awaited<ReturnType<typeof startGateway>>

/** Ends a gateway whose ledger is sound and has no open call, and its provider. */
export async function endSound(gateway: TestGateway, provider: { stop(): Promise<void> }): Promise<void> {
  const { open_holds, violations } = await gateway.audit()
  await gateway.stop()
  await provider.stop()
  if (open_holds + violations.length > 0) throw new Error(JSON.stringify({ open_holds, violations }))
}

/** A fresh database. It has its tables, so it needs neither a check nor a migration. */
async function oneFresh() {
  const { address, drop } = await freshDatabase()
  const shards: OneOrMore<ShardDatabase> = [
    { name: MAIN, open: true, database: await connectDatabase(address) },
  ]
  return { shards, address, drop }
}

async function opened(addresses: OneOrMore<ShardAddress>) {
  return { shards: await openShards(addresses), address: addresses[0].address, drop: () => {} }
}

/** A chat completion request with the usual headers, and these. */
export async function chat(
  gateway: { readonly url: string },
  key: string,
  body: object = {},
  { headers, ...init }: RequestInit & { readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<Response> {
  const asked_ms = performance.now()
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: CHAT, messages: [{ role: "user", content: "hello" }], ...body }),
    ...init,
  })
  const is_whole = answer.headers.get("content-type")?.startsWith("application/json") === true
  const id = answer.headers.get("x-request-id")
  if (is_whole) await ended(gateway, { id, status: answer.status }, asked_ms)
  return answer
}
