import { Elysia } from "elysia"
import type { Gateway } from "../gateway.ts"
import { chat } from "../operations/chat.ts"
import * as reference from "./docs/chat-completions.ts"
import { modelCall } from "./model-call.ts"

/** `POST /v1/chat/completions` and its compatible path (spec 4.1). */
export function chatCompletions(gateway: Gateway) {
  const handle = ({ request }: { request: Request }) => modelCall(gateway, chat, request)
  return new Elysia({ name: "chat-completions" })
    .post("/v1/chat/completions", handle, reference.createChatCompletion)
    .post("/chat/completions", handle, reference.createChatCompletionCompatible)
}
