import { swagger } from "@elysiajs/swagger"
import { Elysia } from "elysia"
import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { documentation } from "./docs/document.ts"
import { getOpenApi, getReference, getReferenceAsset } from "./docs/service.ts"
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

/** The models that the examples name, by their families. */
const EXAMPLES: readonly (readonly [family: Model["family"], name: string])[] = [
  ["chat", "gpt-5-mini"],
  ["messages", "claude-sonnet"],
]

/**
 * `GET /docs`: the API reference, with all its assets served from here. `GET /docs/json`: the OpenAPI document of every
 * route of the application that uses this, whose examples name configured models, so that they can be tried out.
 */
export function docs(models: () => readonly Model[]) {
  return (app: Elysia) => app.use(reference(() => app.routes, models))
}

function reference(routes: () => readonly AnyRoute[], models: () => readonly Model[]) {
  const files = new Map<string, Promise<ServedFile>>()
  const read = (file: string, type: string): Promise<ServedFile> => {
    const known = files.get(file) ?? loadFile(import.meta.resolve(file), type)
    files.set(file, known)
    return known
  }
  let document: { readonly models: readonly Model[]; readonly file: Promise<ServedFile> } | undefined

  return new Elysia({ name: "docs" })
    .get(
      "/docs",
      ({ request }) => serveFile(request, read("./docs/page.html", "text/html; charset=utf-8"), POLICY),
      { detail: getReference },
    )
    .get(
      "/docs/json",
      ({ request }) => {
        const configured = models()
        if (document?.models !== configured) {
          document = { models: configured, file: describe(routes(), configured) }
        }
        return serveFile(request, document.file, POLICY)
      },
      { detail: getOpenApi },
    )
    .get(
      "/docs/assets/:file",
      ({ request, params }) => {
        const asset = Object.hasOwn(ASSETS, params.file) ? ASSETS[params.file] : undefined
        if (asset === undefined) throw new GatewayError("not_found")
        return serveFile(request, read(asset.file, asset.type), POLICY)
      },
      { detail: getReferenceAsset },
    )
}

type AnyRoute = Elysia["routes"][number]

/**
 * The OpenAPI document of `routes`, from the `detail` of each. The plugin that writes it is asked on an application of its own,
 * which nobody listens to: the page that it brings along loads a script from another host.
 */
async function describe(routes: readonly AnyRoute[], models: readonly Model[]): Promise<ServedFile> {
  const mirror = new Elysia().use(
    swagger({ path: "/page", specPath: "/document", documentation, excludeStaticFile: false }),
  )
  for (const { method, path, hooks } of routes) {
    mirror.route(method, path, () => null, { detail: hooks.detail })
  }
  const written = await mirror.handle(new Request("http://localhost/document"))
  const bytes = new TextEncoder().encode(naming(models, await written.text()))
  return fingerprinted(bytes.buffer, "application/json")
}

/** The document with the first configured model of a family wherever an example names one of that family. */
function naming(models: readonly Model[], document: string): string {
  const names = new Map(
    EXAMPLES.map(([family, name]) => [name, models.find((model) => model.family === family)?.name ?? name]),
  )
  return JSON.stringify(
    JSON.parse(document, (_, value: unknown) =>
      typeof value === "string" ? (names.get(value) ?? value) : value,
    ),
  )
}
