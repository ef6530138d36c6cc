import { Elysia } from "elysia"
import type { Gateway } from "../gateway.ts"
import { embeddings } from "../operations/embeddings.ts"
import * as reference from "./docs/embeddings.ts"
import { modelCall } from "./model-call.ts"

/** `POST /v1/embeddings` and its compatible path (D67). */
export function embeddingsRoutes(gateway: Gateway) {
  const handle = ({ request }: { request: Request }) => modelCall(gateway, embeddings, request)
  return new Elysia({ name: "embeddings" })
    .post("/v1/embeddings", handle, reference.createEmbeddings)
    .post("/embeddings", handle, reference.createEmbeddingsCompatible)
}
