import { fileURLToPath } from "node:url"
import { Elysia } from "elysia"
import { GatewayError } from "../errors.ts"
import { getConsole, getConsoleAsset } from "./docs/service-routes.ts"
import { fingerprinted, loadFile, pagePolicy, type ServedFile, serveFile } from "./served-file.ts"

/** Also forbids the browser to turn text into markup, such as the name of an account. */
const POLICY = pagePolicy("img-src 'self'", "require-trusted-types-for 'script'", "trusted-types 'none'")

const ENTRY = fileURLToPath(import.meta.resolve("../console/page/main.ts"))

/** What the page loads, by the name it has below `/console/assets/`. Nothing else is served there. */
const ASSETS: Readonly<Record<string, () => Promise<ServedFile>>> = {
  "page.js": bundle,
  "page.css": () => load("../console/page/page.css", "text/css; charset=utf-8"),
  "plot.css": () => load("uplot/dist/uPlot.min.css", "text/css; charset=utf-8"),
  "icon.svg": () => load("./docs/icon.svg", "image/svg+xml"),
}

/** `/console`: the operators' page, which asks `/admin` with the token that is typed into it (D50). */
export function operatorsConsole() {
  const files = new Map<string, Promise<ServedFile>>()
  const once = (name: string, read: () => Promise<ServedFile>): Promise<ServedFile> => {
    const known = files.get(name) ?? read()
    files.set(name, known)
    known.catch(() => files.delete(name))
    return known
  }
  const page = ({ request }: { request: Request }) => serveFile(request, once("page.html", loadPage), POLICY)
  return new Elysia({ name: "console" })
    .get("/console", page, getConsole)
    .get("/console/", page, { detail: { hide: true } })
    .get(
      "/console/assets/:file",
      ({ request, params }) => {
        const read = Object.hasOwn(ASSETS, params.file) ? ASSETS[params.file] : undefined
        if (read === undefined) throw new GatewayError("not_found")
        return serveFile(request, once(params.file, read), POLICY)
      },
      getConsoleAsset,
    )
}

function loadPage(): Promise<ServedFile> {
  return load("../console/page/page.html", "text/html; charset=utf-8")
}

function load(file: string, type: string): Promise<ServedFile> {
  return loadFile(import.meta.resolve(file), type)
}

/** The page's code as one script, bundled in memory by Bun at the first request. */
async function bundle(): Promise<ServedFile> {
  const { outputs } = await Bun.build({
    entrypoints: [ENTRY],
    target: "browser",
    format: "iife",
    minify: true,
  })
  const [script] = outputs
  if (script === undefined) throw new Error("the build of the console's page has no script")
  return fingerprinted(await script.arrayBuffer(), "text/javascript; charset=utf-8")
}
