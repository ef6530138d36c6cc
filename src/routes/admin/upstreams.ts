import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { UpstreamBody } from "../../wire/statistics.ts"
import { exampleOf } from "../reference/example.ts"
import { answer } from "../reference/operation.ts"
import { ofOperators } from "../reference/routes.ts"
import type { Operators } from "./operators.ts"

/** `/admin/upstreams`: the status of the upstreams (D33, D51). */
export function upstreamRoutes({ upstreams }: Operators) {
  return new Elysia({ name: "admin-upstreams" }).get(
    "/upstreams",
    async () => ({ data: [...(await upstreams())] }),
    ofOperators({
      response: {
        200: answer(
          "The upstreams in the order of the configuration, worker by worker.",
          Type.Object({ data: Type.Array(UpstreamBody) }),
          { ready: { data: [first, counter] }, failing: { data: [failing, counter] } },
        ),
      },
      operationId: "listUpstreams",
      tag: "Service",
      summary: "List upstreams",
      description:
        "Lists the configured upstreams with their circuit breakers. After five consecutive failures an upstream is skipped for 10 seconds, then one call tries it. It is skipped for the account whose calls failed, and for all accounts if two had failures or if one call could not be sent at all. Each worker of this gateway has its own breakers and its own entries. Other gateways with the same database are not included.",
    }),
  )
}

const first = exampleOf(UpstreamBody, {
  name: "openai",
  keys: [
    { name: "main", state: "ready", rests_ms: null },
    { name: "second", state: "rate_limited", rests_ms: 18_200 },
  ],
})
const failing: UpstreamBody = { ...first, state: "open", failures: 5, tries_in_ms: 7300 }
const counter: UpstreamBody = { ...first, name: "anthropic", family: "messages", models: ["claude-sonnet"] }
