import { expect, test } from "bun:test"
import { Catalog, termsOf } from "../../src/admission/catalog.ts"
import { InFlight } from "../../src/admission/in-flight.ts"
import { Call } from "../../src/call/call.ts"
import { NEVER } from "../../src/call/cutoff.ts"
import { loadConfig } from "../../src/config/load.ts"
import { GatewayError } from "../../src/errors.ts"
import { openLedger } from "../../src/ledger/ledger.ts"
import { chat, chatEvents } from "../../src/operations/chat.ts"
import { answerStream, withoutSecret } from "../../src/routes/model-answers.ts"
import { AnswerWait } from "../../src/upstream/answer-wait.ts"
import { Fields } from "../../src/upstream/http/answer-parser.ts"
import { Exchange } from "../../src/upstream/http/exchange.ts"
import { NO_LIMITS } from "../../src/wire/usage.ts"
import { holdOf, LONG_LEASE, openTestDatabase, silent } from "../ledger/test-database.ts"
import { CHAT, configFor } from "../support/gateway.ts"
import { idleGateway } from "../support/idle-gateway.ts"

test("rule 6, D31 a stream whose total timeout is over when its headers are in ends clean and empty", async () => {
  const db = await openTestDatabase()
  const ledger = await openLedger({
    databases: [{ name: "main", open: true, database: db.database }],
    data_dir: await db.folder(),
    lease: LONG_LEASE,
    log: silent,
    checkpoints: () => [],
  })
  const { account_id, key_id } = await db.account(1_000n)
  const config = loadConfig(JSON.stringify(configFor("http://127.0.0.1:1")), { env: {}, readFile: () => "" })
  const catalog = new Catalog(config.models, await ledger.terms(termsOf(config.models)))
  const in_flight = new InFlight()
  const gateway = {
    ...idleGateway(),
    config,
    catalog,
    ledger,
    in_flight,
    sockets: { keepOpen: () => {}, restore: () => {}, cut: () => {}, address: () => "" },
  }
  const model = catalog.find(CHAT, "chat")
  if (model instanceof GatewayError) throw model
  const hold = holdOf({ account_id, key_id }, 100n)
  expect(await ledger.shard(0).hold(hold)).toMatchObject({ outcome: "held" })
  in_flight.takeSlot(account_id, 1)
  in_flight.startRunning()

  const [route] = model.routes
  const body = new Exchange()
  body.receiveHead({ status: 200, length: null, fields: new Fields(""), fault: null })
  const answer = await answerStream(
    {
      gateway,
      answer_memory: gateway.memory.answer(account_id, gateway.config.limits),
      call: new Call(
        chat,
        hold,
        model,
        catalog.termsIds(model, "chat", 0),
        {
          estimate_bytes: 0,
          n: 1,
          limits: NO_LIMITS,
          searches: 0,
          service_tier: null,
          is_hiding: false,
          writes_for_an_hour: false,
        },
        in_flight,
        { releaseSlot: () => in_flight.releaseSlot(account_id) },
        0,
      ),
      reply: {
        kind: "reply",
        route,
        provider_ids: {},
        status: 200,
        length: null,
        body,
        began_ms: performance.now() - route.upstream.timeouts.total_ms,
      },
      answer_wait: new AnswerWait(NEVER, NEVER),
      request: new Request("http://gateway/v1/chat/completions"),
    },
    chatEvents,
    { usage: false, cost: false },
  )

  expect(answer.status).toBe(200)
  expect(await answer.text()).toBe("")
  const rows = await db.sql`SELECT state, ending, failure, charge_nano FROM tollgate.calls`
  expect([...rows]).toEqual([
    { state: "released", ending: "deadline", failure: "upstream_timeout", charge_nano: "0" },
  ])
  await ledger.stop()
  await db.close()
})

test("D17 a failed event that repeats the credential is shown without it, and not at all if it is long", () => {
  const secrets = ["sk-canary"]
  const shown = (text: string) => {
    const parts = withoutSecret([Buffer.from(text)], { secrets })
    return parts && Buffer.concat([...parts]).toString()
  }
  const longest = "x".repeat(262_144 - " sk-canary".length)
  const long = `${longest}x`
  expect(shown("a sk-canary b")).toBe("a [redacted] b")
  expect(shown(`${longest} sk-canary`)).toBe(`${longest} [redacted]`)
  expect(shown(`${long} sk-canary`)).toBeNull()
  expect(shown(long)).toBe(long)
})
