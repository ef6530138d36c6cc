import { fileURLToPath } from "node:url"
import { KindGuard } from "@sinclair/typebox"
import type { BunPlugin } from "bun"
import { fingerprinted, loadFile, pagePolicy, pageRoutes, type ServedFile } from "./served-file.ts"

/** Also forbids the browser to turn text into markup, such as the name of an account. */
const POLICY = pagePolicy("img-src 'self'", "require-trusted-types-for 'script'", "trusted-types 'none'")

const ENTRY = fileURLToPath(import.meta.resolve("../console/page/main.ts"))

/** `/console`: the operators' page, which asks `/admin` with the token that is typed into it (D50). */
export function operatorsConsole() {
  return pageRoutes({
    name: "console",
    path: "/console",
    other_path: "/console/",
    policy: POLICY,
    html: () => load("../console/page/page.html", "text/html; charset=utf-8"),
    assets: {
      "page.js": bundle,
      "page.css": () => load("../console/page/page.css", "text/css; charset=utf-8"),
      "plot.css": () => load("uplot/dist/uPlot.min.css", "text/css; charset=utf-8"),
      "icon.svg": () => load("./reference/icon.svg", "image/svg+xml"),
    },
    operationId: "getConsole",
    summary: "Operator console",
    description:
      "An HTML page that calls `/admin` with the admin token that the operator enters. It is served wherever `/admin` is. Everything that it loads is served by the gateway.",
  })
}

function load(file: string, type: string): Promise<ServedFile> {
  return loadFile(import.meta.resolve(file), type)
}

/** Gives the page the schemas of `src/wire` as data, because TypeBox would be more than a third of its script. */
const schemasAsData: BunPlugin = {
  name: "schemas as data",
  setup(build) {
    build.onLoad({ filter: /\/src\/wire\/[\w-]+\.ts$/ }, async ({ path }) => {
      const exported: Readonly<Record<string, unknown>> = await import(path)
      const schemas = Object.entries(exported).filter(([, value]) => KindGuard.IsObject(value))
      if (schemas.length === 0) return undefined
      const lines = schemas.map(
        ([name, schema]) => `export const ${name} = ${JSON.stringify(schema, forTitles)}`,
      )
      return { contents: lines.join("\n"), loader: "js" }
    })
  },
}

/** The page shows titles and units. It does not validate. */
function forTitles(key: string, value: unknown): unknown {
  const is_left_out = key === "description" || key === "pattern" || key === "enum" || key === "required"
  return is_left_out ? undefined : value
}

/** The page's code as one script, bundled in memory by Bun at the first request. */
async function bundle(): Promise<ServedFile> {
  const { outputs } = await Bun.build({
    entrypoints: [ENTRY],
    target: "browser",
    format: "iife",
    minify: true,
    plugins: [schemasAsData],
  })
  const [script] = outputs
  if (script === undefined) throw new Error("the build of the console's page has no script")
  return fingerprinted(await script.arrayBuffer(), "text/javascript; charset=utf-8")
}
