import { errors, type Preset } from "./preset.ts"

/** Clouds and gateways with models of several makers. */

/** docs.aws.amazon.com, "Responses API", "Invoke a model with the OpenAI Chat Completions API"; portkey.ai, "Bedrock Mantle". */
export const bedrock: Preset = {
  chat: {
    origin: "https://bedrock-runtime.REGION.amazonaws.com",
    path: "/openai/v1",
    operations: ["chat", "responses"],
  },
  messages: { origin: "https://bedrock-mantle.REGION.api.aws", path: "/anthropic", auth: "bearer" },
  hosts: ["bedrock-runtime.*.amazonaws.com", "bedrock-mantle.*.api.aws"],
  // "Troubleshooting Amazon Bedrock API Error Codes": a 403 is a key without the permission, and its message may mention IAM policies.
  errors: errors([], [], { 403: "account" }),
}

/** cloud.google.com, "Using OpenAI libraries with Vertex AI". */
export const vertex: Preset = {
  chat: {
    origin:
      "https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/endpoints/openapi",
    path: null,
    operations: ["chat"],
  },
  hosts: ["*-aiplatform.googleapis.com", "aiplatform.googleapis.com"],
  // Thinking is in the total alone, as in the native API: recorded by pydantic-ai.
  usage: "gemini",
}

/** ai.google.dev, "OpenAI compatibility". */
export const gemini: Preset = {
  chat: {
    origin: "https://generativelanguage.googleapis.com",
    path: "/v1beta/openai",
    operations: ["chat", "embeddings"],
  },
  hosts: ["generativelanguage.googleapis.com"],
  usage: "gemini",
  // An unknown field is a 400; the SDKs of agents send this one: openhanako#394.
  drop: ["store"],
  // A wrong key is a 400: continuedev/continue#10290. Prepaid credits that are used up are a 402.
  errors: errors(["API_KEY_INVALID"]),
}

/** developers.cloudflare.com, "OpenAI compatible API endpoints"; "AI models: search" lists models at no cost. */
export const cloudflare: Preset = {
  chat: {
    origin: "https://api.cloudflare.com/client/v4/accounts/ACCOUNT/ai/v1",
    path: null,
    probe: "../models/search",
  },
  hosts: ["api.cloudflare.com", "gateway.ai.cloudflare.com"],
}

/** docs.databricks.com, "Foundation Model APIs" and "Serving endpoints: list". */
export const databricks: Preset = {
  chat: {
    origin: "https://WORKSPACE.cloud.databricks.com",
    path: "/serving-endpoints",
    probe: "/api/2.0/serving-endpoints",
    operations: ["chat", "embeddings"],
  },
  hosts: ["*.cloud.databricks.com", "*.azuredatabricks.net", "*.gcp.databricks.com"],
}

/** openrouter.ai/docs: "API keys", "Limits", "Usage accounting". Its list of models is public, so the key's own page is requested. */
export const openrouter: Preset = {
  chat: { origin: "https://openrouter.ai", path: "/api/v1", probe: "key" },
  messages: { origin: "https://openrouter.ai", path: "/api", auth: "bearer", probe: "v1/key" },
  hosts: ["openrouter.ai"],
  stream_usage: "unasked",
}

/** console.groq.com/docs: "OpenAI compatibility", "Errors"; usage in its streams: recorded by pydantic-ai. */
export const groq: Preset = {
  chat: { origin: "https://api.groq.com", path: "/openai/v1", operations: ["chat", "responses"] },
  hosts: ["api.groq.com"],
  stream_usage: "unasked",
  // No capacity for the flex tier.
  errors: errors([], [], { 498: "rate" }),
}

/** docs.together.ai, "OpenAI compatibility" and "Error codes". */
export const together: Preset = {
  chat: { origin: "https://api.together.xyz", path: "/v1", operations: ["chat", "embeddings"] },
  hosts: ["api.together.xyz", "api.together.ai"],
  // The prompt and max_tokens exceed the context.
  errors: errors([], [], { 403: "content" }),
}

/** docs.fireworks.ai, "Inference error codes"; a 412 is also a model that is not loaded: pollinations#12136. */
export const fireworks: Preset = {
  chat: { origin: "https://api.fireworks.ai", path: "/inference/v1", operations: ["chat", "embeddings"] },
  hosts: ["api.fireworks.ai"],
  errors: errors([], [/^Account .{0,80}is suspended/i]),
}

/** docs.api.nvidia.com, "LLM APIs"; with `stream_options` a call never ends: DeepTutor#420. */
export const nvidia: Preset = {
  chat: { origin: "https://integrate.api.nvidia.com", path: "/v1", operations: ["chat", "embeddings"] },
  hosts: ["integrate.api.nvidia.com"],
  stream_usage: "unasked",
}

/** huggingface.co/docs, "Inference Providers". */
export const huggingface: Preset = {
  chat: { origin: "https://router.huggingface.co", path: "/v1", operations: ["chat", "responses"] },
  hosts: ["router.huggingface.co"],
}
