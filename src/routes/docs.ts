import { swagger } from "@elysiajs/swagger"
import { Elysia } from "elysia"
import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { OperationName } from "../wire/call.ts"
import { isObject, type JsonObject } from "../wire/usage.ts"
import { documentation } from "./docs/document.ts"
import { getReference, getReferenceAsset } from "./docs/service.ts"
import { openApiDocument } from "./openapi-document.ts"
import { fingerprinted, loadFile, pagePolicy, type ServedFile, serveFile } from "./served-file.ts"

const POLICY = pagePolicy("img-src 'self' data:")

/** What the page loads, by the name it has below `/docs/assets/`. Nothing else is served there. */
const ASSETS: Readonly<Record<string, { readonly file: string; readonly type: string }>> = {
  "page.css": { file: "./docs/page.css", type: "text/css; charset=utf-8" },
  "page.js": { file: "./docs/page.js", type: "text/javascript; charset=utf-8" },
  "icon.svg": { file: "./docs/icon.svg", type: "image/svg+xml" },
  "swagger-ui.css": { file: "swagger-ui-dist/swagger-ui.css", type: "text/css; charset=utf-8" },
  "swagger-ui-bundle.js": {
    file: "swagger-ui-dist/swagger-ui-bundle.js",
    type: "text/javascript; charset=utf-8",
  },
}

/** The models that the examples name, by their operations. */
const EXAMPLES: readonly (readonly [operation: OperationName, name: string])[] = [
  ["chat", "gpt-5-mini"],
  ["embeddings", "text-embedding-3-small"],
  ["messages", "claude-sonnet"],
]

const DOCUMENT = "/docs/json"

/**
 * `GET /docs`: the API reference, with all its assets served from here. `GET /docs/json`: the OpenAPI document of every
 * route of the application that uses this, whose examples name configured models, so that they can be tried out.
 */
export function docs(models: () => readonly Model[]) {
  const files = new Map<string, Promise<ServedFile>>()
  const read = (file: string, type: string): Promise<ServedFile> => {
    const known = files.get(file) ?? loadFile(import.meta.resolve(file), type)
    files.set(file, known)
    return known
  }
  return new Elysia({ name: "docs" })
    .use(openApi(models))
    .get(
      "/docs",
      ({ request }) => serveFile(request, read("./docs/page.html", "text/html; charset=utf-8"), POLICY),
      getReference,
    )
    .get(
      "/docs/assets/:file",
      ({ request, params }) => {
        const asset = Object.hasOwn(ASSETS, params.file) ? ASSETS[params.file] : undefined
        if (asset === undefined) throw new GatewayError("not_found")
        return serveFile(request, read(asset.file, asset.type), POLICY)
      },
      getReferenceAsset,
    )
}

/**
 * The plugin, whose document is finished once for each configuration. Its own page loads a script from another host: it
 * is given the address of ours, which takes its place.
 */
function openApi(models: () => readonly Model[]) {
  let finished: { readonly models: readonly Model[]; readonly file: Promise<ServedFile> } | undefined
  return new Elysia({ name: "openapi" })
    .onBeforeHandle(({ request, path }) => {
      if (path !== DOCUMENT || finished?.models !== models()) return undefined
      return serveFile(request, finished.file, POLICY)
    })
    .onAfterHandle(({ request, responseValue }) => {
      if (!isObject(responseValue) || responseValue instanceof Response) return undefined
      const configured = models()
      const text = naming(configured, openApiDocument(responseValue))
      finished = {
        models: configured,
        file: fingerprinted(new TextEncoder().encode(text).buffer, "application/json"),
      }
      return serveFile(request, finished.file, POLICY)
    })
    .use(swagger({ path: "/docs", specPath: DOCUMENT, documentation, excludeStaticFile: false }))
}

/** A model that is there for the operation, or one that offers it too. */
function modelFor(operation: OperationName, models: readonly Model[]): Model | undefined {
  const own = models.find(({ operations }) => operations[0] === operation)
  return own ?? models.find(({ operations }) => operations.includes(operation))
}

/** The text of the document, with a configured model for an operation wherever an example names one for it. */
function naming(models: readonly Model[], document: JsonObject): string {
  const names = new Map(
    EXAMPLES.map(([operation, name]) => [name, modelFor(operation, models)?.name ?? name]),
  )
  return JSON.stringify(document, (_, value: unknown) =>
    typeof value === "string" ? (names.get(value) ?? value) : value,
  )
}
