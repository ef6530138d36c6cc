import type { Preset } from "./preset.ts"

/** Programs that serve models on the operator's own machines. They have no hosts, because a port does not identify a program. */

/** uvicorn, under vLLM, SGLang and LiteLLM, and the library of llama.cpp close an idle connection after 5 s. */
const SHORT_IDLE_MS = 4_000

/** docs.vllm.ai, "OpenAI-compatible server"; vllm#18472; messages accept only Bearer: vllm#51572. */
export const vllm: Preset = {
  chat: { origin: "http://127.0.0.1:8000", path: "/v1" },
  messages: { origin: "http://127.0.0.1:8000", path: "", auth: "bearer" },
  hosts: [],
  idle_connection_ms: SHORT_IDLE_MS,
}

/** docs.sglang.ai, "OpenAI-compatible APIs"; sglang#20851. */
export const sglang: Preset = {
  chat: { origin: "http://127.0.0.1:30000", path: "/v1" },
  messages: { origin: "http://127.0.0.1:30000", path: "", auth: "bearer" },
  hosts: [],
  idle_connection_ms: SHORT_IDLE_MS,
}

/** docs.ollama.com, "OpenAI compatibility", "Anthropic compatibility"; the cloud accepts only Bearer: ollama#16922. */
export const ollama: Preset = {
  chat: { origin: "http://127.0.0.1:11434", path: "/v1" },
  messages: { origin: "http://127.0.0.1:11434", path: "", auth: "bearer" },
  hosts: ["ollama.com"],
}

/** llama.cpp tools/server/README.md. */
export const llamacpp: Preset = {
  chat: { origin: "http://127.0.0.1:8080", path: "/v1" },
  messages: { origin: "http://127.0.0.1:8080", path: "", auth: "bearer" },
  hosts: [],
  idle_connection_ms: SHORT_IDLE_MS,
}

/** lmstudio.ai/docs, "OpenAI compatible endpoints", "Anthropic compatible endpoints". */
export const lmstudio: Preset = {
  chat: { origin: "http://127.0.0.1:1234", path: "/v1" },
  messages: { origin: "http://127.0.0.1:1234", path: "", auth: "bearer" },
  hosts: [],
}

/** docs.litellm.ai, "Proxy". */
export const litellm: Preset = {
  chat: { origin: "http://127.0.0.1:4000", path: "/v1" },
  messages: { origin: "http://127.0.0.1:4000", path: "", auth: "bearer" },
  hosts: [],
  idle_connection_ms: SHORT_IDLE_MS,
}
