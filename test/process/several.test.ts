import { expect, test } from "bun:test"
import { join } from "node:path"
import { chat, chatModel, configFor, until } from "../support/gateway.ts"
import { ADMIN_TOKEN, operatorOf } from "../support/operator.ts"
import { type Exchange, json } from "../support/provider.ts"
import { testPlace } from "./workplace.ts"

const model = chatModel("two-upstreams", { upstreams: [{ use: "first" }, { use: "second" }] })
const { place, provider, start: startIn } = await testPlace()
const upstream = (name: string) => ({ family: "chat", base_url: `${provider.url}/${name}` })
place.configure(
  configFor(provider.url, {
    lease: { renew: "200ms", expire: "1s" },
    upstreams: { first: upstream("first"), second: upstream("second") },
    models: [model],
  }),
)

test("D93 an attempt that failed before its gateway was killed is in the journal, and on the operator's receipt", async () => {
  const start = (name: string) => startIn({ TOLLGATE_DATA_DIR: join(place.folder, name) })
  // Both at once, on a database without tables.
  const [one, other] = await Promise.all([start("one"), start("other")])
  const operator = operatorOf(other.url)
  const { key } = await operator.account("1")
  const silenced = Promise.withResolvers<Exchange>()
  provider.reply(async (exchange) => {
    if (provider.requests.length === 1) return json(503, "{}", { "x-request-id": "req_1" })(exchange)
    silenced.resolve(exchange)
    await exchange.closed
  })
  const answer = chat(one, key, { model: "two-upstreams" }).catch(() => null)
  const { request } = await silenced.promise
  const call = () => operator.call(request.headers["x-request-id"] ?? "")
  await until(call, ({ attempts }) => Array.isArray(attempts) && attempts.length === 1)
  one.signal("SIGKILL")
  await answer
  const attempt = { upstream: "first", status: 503, failure: null, provider_request_id: "req_1" }
  expect(await until(call, ({ state }) => state !== "open")).toMatchObject({
    state: "expired",
    attempts: [attempt],
  })
  const { stdout, exitCode } = Bun.spawnSync({
    cmd: [process.execPath, "src/cli/main.ts", "attempts", "--json"],
    cwd: join(import.meta.dir, "../.."),
    env: { ...process.env, TOLLGATE_URL: other.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN },
  })
  expect([exitCode, JSON.parse(String(stdout)).data]).toMatchObject([0, [{ upstream: "first", attempts: 1 }]])
  expect((await operator.audit()).violations).toEqual([])
})
