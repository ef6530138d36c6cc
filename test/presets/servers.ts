/**
 * What a scripted server of each provider expects and answers, written by hand from the vendors' pages and recorded answers.
 * It takes nothing from the presets.
 */

export interface Server {
  /** What is appended to its address, with the query; `MODEL` stands for the model. */
  readonly path: string
  readonly model: string
  /** The header of the credential and what precedes the credential. */
  readonly credential: readonly [header: string, prefix: string]
  readonly operation: "chat" | "responses" | "messages"
  /** Fields that it refuses, and what clients send nevertheless. */
  readonly refuses?: readonly string[]
  readonly sent?: object
  /** A refusal about the request, and the words that the client sees. */
  readonly refusal: readonly [status: number, body: unknown, words: string]
  /** What it says when it refuses the operator's account or key. */
  readonly account: readonly [status: number, body: unknown]
  /** How it says 20 tokens, and 10, if not as most do: test/honest/ has the words of each provider. */
  readonly usage?: object
  /** Whether a stream reports usage only if it is asked. */
  readonly asks?: boolean
}

const BEARER = ["authorization", "Bearer "] as const
const WORDS = "max_tokens is too large"
const INVALID_ARGUMENT = [
  400,
  [{ error: { code: 400, message: WORDS, status: "INVALID_ARGUMENT" } }],
  WORDS,
] as const
/** `{ error: … }`, as OpenAI says it. */
const told = (message: string, more: object = {}) => ({
  error: { message, type: "invalid_request_error", param: null, code: null, ...more },
})
const TOO_LARGE = [400, told(WORDS), WORDS] as const
const NO_KEY = [401, told("Incorrect API key provided", { code: "invalid_api_key" })] as const
const chat = {
  operation: "chat",
  path: "/v1/chat/completions",
  credential: BEARER,
  refusal: TOO_LARGE,
  account: NO_KEY,
  asks: true,
} as const

const messages = {
  operation: "messages",
  path: "/v1/messages",
  model: "m",
  credential: BEARER,
  refusal: [400, { type: "error", error: { type: "invalid_request_error", message: WORDS } }, WORDS],
  account: [401, { type: "error", error: { type: "authentication_error", message: "invalid x-api-key" } }],
} as const satisfies Server

const QUOTA = [
  429,
  told("You exceeded your current quota", { type: "insufficient_quota", code: "insufficient_quota" }),
] as const

/** By the name of the upstream on the page. */
export const servers: Readonly<Record<string, Server>> = {
  openai: { ...chat, model: "gpt-5-mini", account: QUOTA },
  azure: {
    ...chat,
    path: "/openai/deployments/MODEL/chat/completions?api-version=2024-10-21",
    model: "my-deployment",
    credential: ["api-key", ""],
    refusal: [
      400,
      told("The response was filtered", {
        type: null,
        code: "content_filter",
        innererror: { code: "ResponsibleAIPolicyViolation" },
      }),
      "The response was filtered",
    ],
    account: [401, { error: { code: "401", message: "Access denied due to invalid subscription key." } }],
  },
  "azure-v1": {
    ...chat,
    path: "/openai/v1/chat/completions",
    model: "my-deployment",
    credential: ["api-key", ""],
  },
  anthropic: {
    ...messages,
    credential: ["x-api-key", ""],
    model: "claude-sonnet-4-5",
    account: [
      400,
      {
        type: "error",
        error: {
          type: "invalid_request_error",
          message: "Your credit balance is too low to access the API.",
        },
      },
    ],
  },
  bedrock: {
    ...chat,
    path: "/openai/v1/chat/completions",
    model: "openai.gpt-oss-20b-1:0",
    account: [
      403,
      {
        message:
          "User is not authorized to perform bedrock:InvokeModel because no identity-based policy allows it",
      },
    ],
  },
  "bedrock-claude": {
    ...messages,
    path: "/anthropic/v1/messages",
    model: "anthropic.claude-sonnet-4-5",
    account: [403, { message: "Authentication failed" }],
  },
  vertex: {
    ...chat,
    path: "/v1/projects/PROJECT/locations/LOCATION/endpoints/openapi/chat/completions",
    model: "google/gemini-2.5-flash",
    usage: { prompt_tokens: 20, completion_tokens: 6, total_tokens: 30 },
    refusal: INVALID_ARGUMENT,
    account: [
      401,
      [
        {
          error: {
            code: 401,
            message: "Request had invalid authentication credentials.",
            status: "UNAUTHENTICATED",
          },
        },
      ],
    ],
  },
  gemini: {
    ...chat,
    path: "/v1beta/openai/chat/completions",
    model: "gemini-2.5-flash",
    refuses: ["store"],
    sent: { store: false },
    usage: { prompt_tokens: 20, completion_tokens: 6, total_tokens: 30 },
    refusal: INVALID_ARGUMENT,
    account: [
      400,
      [
        {
          error: {
            code: 400,
            message: "API key not valid. Please pass a valid API key.",
            status: "INVALID_ARGUMENT",
            details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }],
          },
        },
      ],
    ],
  },
  xai: {
    ...chat,
    model: "grok-4",
    account: [
      429,
      {
        code: "Some resource has been exhausted",
        error: "Your team x has either used all available credits or reached its monthly spending limit.",
      },
    ],
  },
  deepseek: {
    ...chat,
    path: "/chat/completions",
    model: "deepseek-chat",
    refusal: [422, told(WORDS), WORDS],
    account: [402, told("Insufficient Balance")],
  },
  moonshot: {
    ...chat,
    model: "kimi-k3",
    account: [
      429,
      {
        error: {
          message: "Your account org-1 <ak-1> is suspended due to insufficient balance",
          type: "exceeded_current_quota_error",
        },
      },
    ],
  },
  mistral: {
    ...chat,
    model: "mistral-small-latest",
    asks: false,
    refuses: ["stream_options"],
    refusal: [
      422,
      { object: "error", message: WORDS, type: "invalid_request_error", param: null, code: null },
      WORDS,
    ],
    account: [401, { message: "Unauthorized" }],
  },
  groq: {
    ...chat,
    path: "/openai/v1/chat/completions",
    model: "openai/gpt-oss-20b",
    asks: false,
  },
  together: {
    ...chat,
    model: "meta-llama/Llama-3.3-70B",
    refusal: [403, told("The prompt and max_tokens are too long"), "too long"],
    account: [402, told("You have reached your spending limit")],
  },
  fireworks: {
    ...chat,
    path: "/inference/v1/chat/completions",
    model: "accounts/fireworks/models/kimi-k3",
    refusal: [
      412,
      { error: { message: "The LoRA is not loaded", code: "PRECONDITION_FAILED" } },
      "not loaded",
    ],
    account: [
      412,
      {
        error: {
          message: "Account acme is suspended, possibly due to reaching the monthly spending limit.",
          param: null,
          code: "PRECONDITION_FAILED",
          type: "error",
        },
      },
    ],
  },
  perplexity: {
    ...chat,
    operation: "responses",
    path: "/v1/responses",
    model: "openai/gpt-5.2",
    account: [401, { error: { code: 401, message: "Your credits are used up", type: "unauthorized" } }],
  },
  cohere: {
    ...chat,
    path: "/compatibility/v1/chat/completions",
    model: "command-a-03-2025",
    asks: false,
    refuses: ["stream_options", "store"],
    sent: { store: false },
    refusal: [498, { message: "The request was blocked" }, "The request was blocked"],
    account: [402, { message: "The account has reached its billing limit" }],
  },
  openrouter: {
    ...chat,
    path: "/api/v1/chat/completions",
    model: "openai/gpt-5-mini",
    asks: false,
    refusal: [
      400,
      {
        error: { code: 400, message: WORDS, metadata: { error_type: "invalid_request" } },
        user_id: "user_1",
      },
      WORDS,
    ],
    account: [402, { error: { code: 402, message: "Insufficient credits" } }],
  },
  cloudflare: {
    ...chat,
    path: "/client/v4/accounts/ACCOUNT/ai/v1/chat/completions",
    model: "@cf/openai/gpt-oss-120b",
  },
  databricks: {
    ...chat,
    path: "/serving-endpoints/chat/completions",
    model: "databricks-claude-sonnet-4-5",
    refusal: [400, { error_code: "BAD_REQUEST", message: WORDS }, WORDS],
    account: [403, { error_code: "403", message: "Invalid access token." }],
  },
  dashscope: {
    ...chat,
    path: "/compatible-mode/v1/chat/completions",
    model: "qwen-plus",
    account: [
      400,
      told("Access denied, please make sure your account is in good standing.", {
        code: "Arrearage",
        type: "Arrearage",
      }),
    ],
  },
  zhipu: {
    ...chat,
    path: "/api/paas/v4/chat/completions",
    model: "glm-5",
    refusal: [400, { error: { code: "1261", message: WORDS } }, WORDS],
    account: [429, { error: { code: "1113", message: "Insufficient balance or no resource package" } }],
  },
  minimax: {
    ...chat,
    model: "MiniMax-M3",
    refusal: [
      400,
      { error: { type: "bad_request_error", message: WORDS, http_code: "400" }, request_id: "1" },
      WORDS,
    ],
    account: [
      500,
      {
        error: { type: "api_error", message: "insufficient balance (1008)", http_code: "500" },
        request_id: "1",
      },
    ],
  },
  nvidia: {
    ...chat,
    model: "meta/llama-3.1-8b-instruct",
    asks: false,
    refuses: ["stream_options"],
    refusal: [400, { message: WORDS, type: "invalid_request_error", code: 400 }, WORDS],
    account: [403, { status: 403, title: "Forbidden", detail: "Authorization failed" }],
  },
  huggingface: {
    ...chat,
    model: "meta-llama/Llama-3.3-70B-Instruct:together",
  },
  litellm: {
    ...chat,
    model: "gpt-5-mini",
  },
  vllm: {
    ...chat,
    model: "qwen3",
    refusal: [400, { error: { message: WORDS, type: "BadRequestError", param: null, code: 400 } }, WORDS],
    account: [401, { error: "Unauthorized" }],
  },
  sglang: {
    ...chat,
    model: "qwen3",
    refusal: [400, { object: "error", message: WORDS, type: "BadRequest", code: 400 }, WORDS],
  },
  ollama: { ...chat, model: "llama3.2" },
  llamacpp: {
    ...chat,
    model: "local",
    account: [401, { error: { code: 401, message: "Invalid API Key", type: "authentication_error" } }],
  },
  lmstudio: { ...chat, model: "openai/gpt-oss-20b" },
}

/** The messages endpoints that the page only marks: `family: messages` in the same lines. */
export const messagesServers: Readonly<Record<string, Server>> = {
  deepseek: {
    ...messages,
    path: "/anthropic/v1/messages",
    credential: ["x-api-key", ""],
    account: [402, { error: { message: "Insufficient Balance" } }],
  },
  moonshot: { ...messages, path: "/anthropic/v1/messages" },
  minimax: { ...messages, path: "/anthropic/v1/messages" },
  litellm: messages,
  openrouter: { ...messages, path: "/api/v1/messages" },
  vllm: messages,
  sglang: messages,
  ollama: messages,
  llamacpp: messages,
  lmstudio: messages,
}
