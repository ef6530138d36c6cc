import { errors, type Preset } from "./preset.ts"

/** Companies that sell the models that they train. */

/** help.openai.com 6614457, developers.openai.com error codes. */
const openaiErrors = errors([
  "insufficient_quota",
  "credit_balance_exhausted",
  "organization_spend_limit_exceeded",
  "project_spend_limit_exceeded",
  "organization_usage_limit_exceeded",
])

/** openai-node and its docs. */
export const openai: Preset = {
  chat: { origin: "https://api.openai.com", path: "/v1" },
  hosts: ["api.openai.com", "*.api.openai.com"],
  errors: openaiErrors,
}

/** openai-node docs/azure.md, "Dated API versions"; learn.microsoft.com, "Azure OpenAI REST API reference". */
export const azure: Preset = {
  chat: {
    origin: "https://RESOURCE.openai.azure.com",
    path: "/openai/deployments/{model}",
    auth: "api-key",
    // "Working with models": the Models List API of the resource, which lists models and not deployments.
    probe: "/openai/models",
    unlisted: true,
    operations: ["chat", "embeddings"],
  },
  hosts: ["*.openai.azure.com/openai/deployments/", "*.cognitiveservices.azure.com/openai/deployments/"],
  // The last dated version that is not a preview.
  query: { "api-version": "2024-10-21" },
  errors: openaiErrors,
}

/** openai-node docs/azure.md, "v1 API". */
export const azureV1: Preset = {
  chat: { origin: "https://RESOURCE.openai.azure.com", path: "/openai/v1", auth: "api-key", unlisted: true },
  hosts: [
    "*.openai.azure.com/openai/v1",
    "*.cognitiveservices.azure.com/openai/v1",
    "*.services.ai.azure.com/openai/v1",
  ],
  errors: openaiErrors,
}

/** @anthropic-ai/sdk; platform.claude.com, "Errors". */
export const anthropic: Preset = {
  messages: { origin: "https://api.anthropic.com", path: "" },
  hosts: ["api.anthropic.com"],
  errors: errors(
    ["billing_error", "enforced_spend_limit_reached"],
    [/^Your credit balance is too low/i, /^You have reached your specified API usage limits/i],
  ),
}

/** docs.x.ai; errors: continuedev/continue#10373, Anantys-oss/koan#2412. */
export const xai: Preset = {
  chat: { origin: "https://api.x.ai", path: "/v1", operations: ["chat", "responses"] },
  hosts: ["api.x.ai", "*.api.x.ai"],
  errors: errors(
    [],
    [/^Your (?:newly created )?team .{0,80}(?:used all available credits|doesn't have any credits)/i],
  ),
}

/** api-docs.deepseek.com, "Your First API Call", "Anthropic API", "Error Codes". */
export const deepseek: Preset = {
  chat: { origin: "https://api.deepseek.com", path: "", operations: ["chat"] },
  messages: { origin: "https://api.deepseek.com", path: "/anthropic", probe: "/models" },
  hosts: ["api.deepseek.com"],
  errors: errors([], [/^Insufficient Balance\b/i]),
}

/** platform.kimi.ai; errors: kimi.com help "API troubleshooting", MoonshotAI/kimi-code#1857. */
export const moonshot: Preset = {
  chat: { origin: "https://api.moonshot.ai", path: "/v1", operations: ["chat"] },
  messages: { origin: "https://api.moonshot.ai", path: "/anthropic", auth: "bearer", probe: "/v1/models" },
  hosts: ["api.moonshot.ai", "api.moonshot.cn"],
  errors: errors(["exceeded_current_quota_error"]),
}

/** docs.mistral.ai; it refuses `stream_options`: avante.nvim#2347. Usage in its streams: recorded by pydantic-ai. */
export const mistral: Preset = {
  chat: { origin: "https://api.mistral.ai", path: "/v1", operations: ["chat", "embeddings"] },
  hosts: ["api.mistral.ai"],
  stream_usage: "unasked",
}

/** docs.perplexity.ai, "Agent API": responses and embeddings. An empty account is a 401. */
export const perplexity: Preset = {
  chat: { origin: "https://api.perplexity.ai", path: "/v1", operations: ["responses", "embeddings"] },
  hosts: ["api.perplexity.ai"],
}

/** docs.cohere.com, "Compatibility API" and "Errors"; it refuses `stream_options`: strandsagents.com, "Cohere". */
export const cohere: Preset = {
  chat: {
    origin: "https://api.cohere.ai",
    path: "/compatibility/v1",
    probe: "/v1/models",
    operations: ["chat", "embeddings"],
  },
  hosts: ["api.cohere.ai", "api.cohere.com"],
  stream_usage: "unasked",
  // Listed as unsupported.
  drop: ["store", "metadata"],
  // An unsafe request.
  errors: errors([], [], { 498: "content" }),
}

/**
 * alibabacloud.com, "Model Studio: OpenAI compatible", "Deep thinking" and "Error codes". There `insufficient_quota` means a rate limit.
 */
export const dashscope: Preset = {
  chat: {
    origin: "https://dashscope-intl.aliyuncs.com",
    path: "/compatible-mode/v1",
    operations: ["chat", "embeddings"],
  },
  hosts: ["dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com", "dashscope.aliyuncs.com"],
  unlimited_thinking: true,
  errors: errors(["Arrearage"]),
}

/** docs.z.ai, "API Error Codes"; the Chinese platform is open.bigmodel.cn. */
export const zhipu: Preset = {
  chat: { origin: "https://api.z.ai", path: "/api/paas/v4", operations: ["chat", "embeddings"] },
  hosts: ["api.z.ai", "open.bigmodel.cn"],
  errors: errors(["1113"]),
}

/** platform.minimax.io, "Error code"; an empty account: MiniMax-M2#62, modelscope#1691. */
export const minimax: Preset = {
  chat: { origin: "https://api.minimax.io", path: "/v1", operations: ["chat", "responses"] },
  messages: { origin: "https://api.minimax.io", path: "/anthropic", auth: "bearer" },
  hosts: ["api.minimax.io", "api.minimaxi.com"],
  errors: errors(["1008", "insufficient_balance_error"], [/^insufficient balance\b/i]),
}
