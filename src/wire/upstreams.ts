import { type Static, Type } from "@sinclair/typebox"

/** What `GET /admin/upstreams` answers: how one process finds one upstream (D51). */
export const UpstreamBody = Type.Object({
  name: Type.String(),
  family: Type.String({ enum: ["chat", "messages"] }),
  models: Type.Array(Type.String(), {
    description: "The models that may be served by it, as clients name them.",
  }),
  worker: Type.Union([Type.Integer(), Type.Null()], {
    description: "Which worker speaks: each has breakers of its own. Null for a gateway without workers.",
  }),
  state: Type.String({
    enum: ["ready", "open", "trying"],
    description:
      "`ready`: calls go there. `open`: it failed five times in a row and is skipped. `trying`: one call finds out whether it is back.",
  }),
  failures: Type.Integer({ minimum: 0, description: "In a row, the last of them just before now." }),
  tries_in_ms: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
    description: "When the next call may try an upstream that is not ready; 0: the next call will.",
  }),
})
export type UpstreamBody = Static<typeof UpstreamBody>
