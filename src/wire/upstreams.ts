import { type Static, Type } from "@sinclair/typebox"

/** What `GET /admin/upstreams` answers: how one process finds one upstream (D51). */
export const UpstreamBody = Type.Object({
  name: Type.String(),
  family: Type.String({ enum: ["chat", "messages"] }),
  models: Type.Array(Type.String(), {
    description: "The models that it can serve, by the names that clients use.",
  }),
  worker: Type.Union([Type.Integer(), Type.Null()], {
    description:
      "The worker that this entry describes: each worker has its own breakers. Null for a gateway without workers.",
  }),
  state: Type.String({
    enum: ["ready", "open", "trying"],
    description:
      "`ready`: receives calls. `open`: skipped after five consecutive failures. `trying`: one call is testing whether it works again.",
  }),
  failures: Type.Integer({ minimum: 0, description: "The number of consecutive failures." }),
  tries_in_ms: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
    description:
      "Milliseconds until a call can try an upstream that is not ready; 0 means the next call will.",
  }),
})
export type UpstreamBody = Static<typeof UpstreamBody>
