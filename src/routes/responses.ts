import { Elysia } from "elysia"
import type { Gateway } from "../gateway.ts"
import { responses } from "../operations/responses.ts"
import * as reference from "./docs/responses.ts"
import { modelCall } from "./model-call.ts"

/** `POST /v1/responses` and its compatible path (D66). */
export function modelResponses(gateway: Gateway) {
  const handle = ({ request }: { request: Request }) => modelCall(gateway, responses, request)
  return new Elysia({ name: "responses" })
    .post("/v1/responses", handle, reference.createResponse)
    .post("/responses", handle, reference.createResponseCompatible)
}
