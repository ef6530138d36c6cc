import { Elysia } from "elysia"
import { activeKey } from "../admission/admit.ts"
import { hashOf } from "../admission/key.ts"
import { hasVersionHeader, modelListCredential, vendorVersion } from "../admission/request-headers.ts"
import type { Gateway } from "../gateway.ts"
import { requestId } from "../id.ts"
import { jsonHeaders } from "../upstream/headers.ts"
import { modelList } from "../wire/models.ts"
import * as reference from "./docs/models.ts"

/** `GET /v1/models`, `/v1/models/`, `/models`, `/models/` (spec 4.2): four paths, the same bytes (D23). */
export function models(gateway: Gateway) {
  const handle = ({ request }: { request: Request }) => list(gateway, request)
  return new Elysia({ name: "models" })
    .get("/v1/models", handle, reference.listModels)
    .get("/v1/models/", handle, reference.listModelsSlash)
    .get("/models", handle, reference.listModelsCompatible)
    .get("/models/", handle, reference.listModelsCompatibleSlash)
}

async function list({ config, catalog, ledger, key_loads }: Gateway, request: Request): Promise<Response> {
  const versioned = hasVersionHeader(request.headers, config.vendors)
  const key = modelListCredential(request.headers, versioned)
  if (versioned) vendorVersion(request.headers, config.vendors, null)
  const { models } = await activeKey({ ledger, key_loads, config }, hashOf(key))
  const open = catalog.list(versioned ? "messages" : "chat")
  const seen = models === null ? open : open.filter(({ name }) => models.includes(name))
  return new Response(JSON.stringify(modelList(seen)), { headers: jsonHeaders(requestId(request)) })
}
