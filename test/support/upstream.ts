import type { Upstream } from "../../src/config/config.ts"
import { anyErrors } from "../../src/presets/presets.ts"

/** What a test says of an upstream; `api_key` is its only key. */
export type UpstreamParts = Partial<Upstream> & { readonly api_key?: string | null }

/** An upstream as the configuration would make it. */
export function anUpstream({ api_key = null, ...overrides }: UpstreamParts = {}): Upstream {
  const { family = "chat" } = overrides
  const auth =
    family === "chat" ? { header: "authorization", prefix: "Bearer " } : { header: "x-api-key", prefix: "" }
  return {
    name: "upstream",
    family: "chat",
    base_url: "http://127.0.0.1:1",
    keys: [{ name: "", api_key, weight: 1 }],
    usage: "default",
    auth,
    headers: {},
    query: "",
    edits: null,
    preset: null,
    errors: anyErrors,
    secrets: api_key === null ? [] : [api_key],
    timeouts: { connect_ms: 1_000, first_byte_ms: 1_000, idle_ms: 1_000, total_ms: 1_000 },
    idle_connection_ms: null,
    transport: "direct",
    proxy: null,
    tls: null,
    pass_cost: false,
    on_disconnect: { stream: "abort", json: "drain", drain_for_ms: 1_000 },
    ...overrides,
  }
}
