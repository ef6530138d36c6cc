import type { Model } from "../../src/config/config.ts"

/** A model of the tests, as the configuration would make it. */
export function aModel(parts: Partial<Model>): Model {
  return {
    name: "m",
    family: "chat",
    operations: [parts.family ?? "chat"],
    routes: [
      {
        upstream: {
          name: "upstream",
          family: "chat",
          base_url: "http://127.0.0.1:1",
          api_key: null,
          timeouts: { first_byte_ms: 1_000, idle_ms: 1_000, total_ms: 1_000 },
          on_disconnect: { stream: "abort", json: "drain", drain_for_ms: 1_000 },
        },
        model: "upstream-model",
      },
    ],
    price: { input_pico: 250_000n, cached_input_pico: 25_000n, output_pico: 2_000_000n, per_call_nano: 0n },
    tiers: [],
    service_tiers: [],
    max_output_tokens: 1_000,
    hold_output_tokens: 1_000,
    part_tokens: 4_096,
    context_tokens: null,
    hold: "worst",
    hold_searches: 10,
    bytes_per_token: 4,
    estimate: { prompt: "client_cut" },
    ...parts,
  }
}
