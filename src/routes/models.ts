import { Elysia } from "elysia"
import { activeKey } from "../admission/admit.ts"
import { hashOf } from "../admission/key.ts"
import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { Gateway } from "../gateway.ts"
import { requestId } from "../id.ts"
import { hasVersionHeader, modelListCredential, vendorVersion } from "../operations/request-headers.ts"
import { jsonHeaders } from "../upstream/headers.ts"
import { modelEntry, modelList } from "../wire/models.ts"
import * as reference from "./docs/models.ts"

/**
 * `GET /v1/models`, `/v1/models/`, `/models`, `/models/` (spec 4.2): four paths, the same bytes (D23). Below them, each model
 * of the list, also with a slash in its name.
 */
export function models(gateway: Gateway) {
  const list = async ({ request }: { request: Request }) =>
    answer(request, modelList(await usable(gateway, request)))
  const one = async ({ request, path }: { request: Request; path: string }) => {
    const name = nameIn(path)
    const found = (await usable(gateway, request)).find((model) => model.name === name)
    if (found === undefined) throw new GatewayError("model_not_found", { param: "model" })
    return answer(request, modelEntry(found))
  }
  return new Elysia({ name: "models" })
    .get("/v1/models", list, reference.listModels)
    .get("/v1/models/", list, reference.listModelsSlash)
    .get("/models", list, reference.listModelsCompatible)
    .get("/models/", list, reference.listModelsCompatibleSlash)
    .get("/v1/models/:model", one, reference.getModel)
    .get("/models/:model", one, reference.getModelCompatible)
    .get("/v1/models/:model/*", one, HIDDEN)
    .get("/models/:model/*", one, HIDDEN)
}

const HIDDEN = { detail: { hide: true } } as const

/** The models that the key of a request can call: of messages with a version header, otherwise of chat (D23). */
async function usable(gateway: Gateway, request: Request): Promise<readonly Model[]> {
  const { config, catalog } = gateway
  const versioned = hasVersionHeader(request.headers, config.vendors)
  const key = modelListCredential(request.headers, versioned)
  if (versioned) vendorVersion(request.headers, config.vendors, null)
  const { models } = await activeKey(gateway, hashOf(key), request.headers)
  const open = catalog.list(versioned ? "messages" : "chat")
  return models === null ? open : open.filter(({ name }) => models.includes(name))
}

/** The name at the end of a path, with or without escapes; null if an escape is malformed. */
function nameIn(path: string): string | null {
  try {
    return decodeURIComponent(path.slice(path.indexOf(BELOW) + BELOW.length))
  } catch {
    return null
  }
}

const BELOW = "/models/"

function answer(request: Request, body: object): Response {
  return new Response(JSON.stringify(body), { headers: jsonHeaders(requestId(request)) })
}
