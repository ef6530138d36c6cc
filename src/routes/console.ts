import { fileURLToPath } from "node:url"
import { KindGuard } from "@sinclair/typebox"
import type { BunPlugin } from "bun"
import type { IdentityProvider } from "../oidc/identity-provider.ts"
import { partForTitles } from "../wire/field.ts"
import { fingerprinted, loadFile, pagePolicy, pageRoutes, type ServedFile } from "./served-file.ts"

/** Also forbids the browser to turn text, such as an account's name, into markup. */
const POLICY = pagePolicy("img-src 'self'", "require-trusted-types-for 'script'", "trusted-types 'none'")

/** `/console`, which calls `/admin` with a typed token (D50) or after a sign-in by the provider (D103). */
export function operatorsConsole(provider: IdentityProvider | null) {
  return pageRoutes({
    name: "console",
    path: "/console",
    other_path: "/console/",
    policy: POLICY,
    html: () => consolePage(provider),
    assets: assetsOf("../console/page/main.ts"),
    operationId: "getConsole",
    summary: "Operator console",
    description:
      "An HTML page that calls `/admin` with the admin token that the operator enters. It is served wherever `/admin` is. Everything that it loads is served by the gateway.",
  })
}

/** `/account`, the page for key holders, which calls `/v1` with a typed key (D104). */
export function holdersPage() {
  return pageRoutes({
    name: "account",
    path: "/account",
    other_path: "/account/",
    policy: POLICY,
    html: () => load("../console/page/account/page.html", "text/html; charset=utf-8"),
    assets: assetsOf("../console/page/account/main.ts"),
    operationId: "getAccountPage",
    summary: "Page of a key's holder",
    description:
      "An HTML page that calls `/v1` with the API key that its holder enters: balance, usage, credits, budgets and receipts of the account. The page keeps the key in its memory only. Everything that it loads is served by the gateway.",
  })
}

/** The page, with the name of the provider and the address that begins a sign-in there. */
async function consolePage(provider: IdentityProvider | null): Promise<ServedFile> {
  const html = await Bun.file(new URL(import.meta.resolve("../console/page/page.html"))).text()
  const signIn = ({ name, settings }: IdentityProvider) =>
    `id="console" data-provider="${Bun.escapeHTML(name)}" data-sign-in="${settings.public_url}/admin/oidc"`
  const whole = provider === null ? html : html.replace('id="console"', () => signIn(provider))
  return fingerprinted(new TextEncoder().encode(whole).buffer, "text/html; charset=utf-8")
}

const assetsOf = (entry: string) => ({
  "page.js": () => bundle(entry),
  "page.css": () => load("../console/page/page.css", "text/css; charset=utf-8"),
  "plot.css": () => load("uplot/dist/uPlot.min.css", "text/css; charset=utf-8"),
  "icon.svg": () => load("./reference/icon.svg", "image/svg+xml"),
})

function load(file: string, type: string): Promise<ServedFile> {
  return loadFile(import.meta.resolve(file), type)
}

/** Gives the page the schemas of `src/wire` as data, because TypeBox would be more than a third of its script. */
const schemasAsData: BunPlugin = {
  name: "schemas as data",
  setup(build) {
    build.onLoad({ filter: /\/src\/wire\/[\w-]+\.ts$/ }, async ({ path }) => {
      const exported: Readonly<Record<string, unknown>> = await import(path)
      const schemas = Object.entries(exported).flatMap(([name, value]) =>
        KindGuard.IsObject(value) ? [[name, value] as const] : [],
      )
      if (schemas.length === 0) return undefined
      const lines = schemas.map(
        ([name, schema]) => `export const ${name} = ${JSON.stringify(partForTitles(schema))}`,
      )
      return { contents: lines.join("\n"), loader: "js" }
    })
  },
}

async function bundle(entry: string): Promise<ServedFile> {
  const { outputs } = await Bun.build({
    entrypoints: [fileURLToPath(import.meta.resolve(entry))],
    target: "browser",
    format: "iife",
    minify: true,
    plugins: [schemasAsData],
  })
  const [script] = outputs
  if (script === undefined) throw new Error(`the build of ${entry} has no script`)
  return fingerprinted(await script.arrayBuffer(), "text/javascript; charset=utf-8")
}
