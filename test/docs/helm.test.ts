import { describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { loadConfig } from "../../src/config/load.ts"
import { isObject } from "../../src/wire/usage.ts"
import { testFolder } from "../support/folder.ts"
import { ROOT, textOf } from "../support/repository.ts"
import { blocksUnder, mapping } from "./blocks.ts"

/** The chart in deploy/helm: with the values of docs/deploying.md it makes the objects of deploy/kubernetes.yaml. */

const folder = testFolder()
const CHART = join(ROOT, "deploy/helm")
type Values = Readonly<Record<string, unknown>>
const yaml = (path: string): Values => mapping(Bun.YAML.parse(readFileSync(join(CHART, path), "utf8")))
const chart = yaml("Chart.yaml")
const [shown] = blocksUnder("docs/deploying.md", "Helm", "yaml")
const given = mapping(Bun.YAML.parse(shown?.text ?? ""))
const values = merged(yaml("values.yaml"), given)

function merged(one: Values, other: Values): Values {
  const entries = Object.entries(other).map(([name, value]) => {
    const below = one[name]
    return [name, isObject(below) && isObject(value) ? merged(mapping(below), mapping(value)) : value]
  })
  return { ...one, ...Object.fromEntries(entries) }
}

function valueAt(path: string, all: Values): unknown {
  return path
    .split(".")
    .slice(1)
    .reduce<unknown>((value, name) => (isObject(value) ? mapping(value)[name] : undefined), all)
}

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === "" || (typeof value === "object" && Object.keys(value ?? {}).length === 0)

/** `toYaml` and `nindent`, in flow style below the first level. */
function lines(value: unknown, indent: number): string {
  const pad = `\n${" ".repeat(indent)}`
  if (Array.isArray(value)) return value.map((item) => `${pad}- ${JSON.stringify(item)}`).join("")
  return Object.entries(mapping(value))
    .map(([name, item]) => `${pad}${name}: ${JSON.stringify(item)}`)
    .join("")
}

/** The part of Helm's templates that the chart uses. Throws on any other. */
function render(release: string, given_values: Values): string {
  const all = { Values: given_values, Release: { Name: release }, Chart: { AppVersion: chart.appVersion } }
  const text = readFileSync(join(CHART, "templates/gateway.yaml"), "utf8")
    .replace(/^\{\{- (?:\/\*|if not).*-?\}\}\n/gm, "")
    .replace(/^ *\{\{- with (\S+) \}\}\n([\s\S]*?)^ *\{\{- end \}\}\n/gm, (_, path: string, body: string) =>
      isEmpty(valueAt(path, all))
        ? ""
        : body.replace("{{ . }}", `{{ ${path} }}`).replace("toYaml .", `toYaml ${path}`),
    )
    .replace(/\n *\{\{- toYaml (\S+) \| nindent (\d+) \}\}/g, (_, path: string, indent: string) =>
      lines(valueAt(path, all), Number(indent)),
    )
    .replace(/\{\{ toYaml (\S+) \| sha256sum \}\}/g, "0")
    .replace(/\{\{ (\S+) \| default (\S+) \}\}/g, (_, path: string, other: string) =>
      String(isEmpty(valueAt(path, all)) ? valueAt(other, all) : valueAt(path, all)),
    )
    .replace(/\{\{ (\.\S+) \}\}/g, (_, path: string) => {
      const value = valueAt(path, all)
      if (isEmpty(value)) throw new Error(`the chart has no value for ${path}`)
      return String(value)
    })
  if (text.includes("{{")) throw new Error(`not rendered: ${/\{\{.*/.exec(text)?.[0]}`)
  return text
}

/** Helm otherwise takes the Kubernetes that it was built for, which a build from source does not know. */
const OLDEST = ["--kube-version", "1.25.0"]

/** Helm's own rendering. */
function helm(release: string, given_values: Values): string {
  const file = join(folder, "values.yaml")
  writeFileSync(file, JSON.stringify(given_values))
  const args = ["template", release, CHART, "--values", file, ...OLDEST]
  const { status, stdout, stderr } = spawnSync("helm", args, { encoding: "utf8" })
  if (status !== 0) throw new Error(stderr)
  return stdout
}

/** The objects by kind and name, without what only the chart has; the configuration as what it says. */
function objectsOf(text: string): Map<string, unknown> {
  const documents = Bun.YAML.parse(text)
  const objects = (Array.isArray(documents) ? documents : [documents]).filter(isObject).map(mapping)
  return new Map(
    objects.map((object) => {
      const plain = JSON.stringify(object, (key, value: unknown) => {
        if (key === "imagePullPolicy" || key === "checksum/config" || key === "image") return undefined
        if (key === "tollgate.yaml") return Bun.YAML.parse(String(value))
        if (key === "env" && Array.isArray(value))
          return value.map(mapping).sort((one, other) => String(one.name).localeCompare(String(other.name)))
        return value
      })
      return [`${object.kind} ${mapping(object.metadata).name}`, JSON.parse(plain)]
    }),
  )
}

const has_helm = Bun.which("helm") !== null
if (!has_helm) console.warn("SKIPPED: no helm, so the chart is rendered by the test alone")

/** Where kubeconform has its schemas, as its -schema-location says it; it would fetch them otherwise. */
const schemas = process.env.KUBERNETES_SCHEMAS

describe("deploy/helm", () => {
  const plain = objectsOf(textOf("deploy/kubernetes.yaml"))

  test("with the values of the page makes the objects of deploy/kubernetes.yaml", () => {
    expect(objectsOf(render("tollgate", values))).toEqual(plain)
    expect(render("tollgate", values)).toContain(`image: "registry.example.com/tollgate:${chart.appVersion}"`)
  })

  test.skipIf(!has_helm)("so does helm itself, which has nothing to say against it", () => {
    expect(objectsOf(helm("tollgate", given))).toEqual(plain)
    const lint = ["lint", CHART, "--set", "config.models={a}", ...OLDEST]
    const { status, stdout } = spawnSync("helm", lint, { encoding: "utf8" })
    expect({ status, stdout }).toEqual({ status: 0, stdout })
  })

  test.skipIf(!has_helm || schemas === undefined)("kubeconform finds every object valid", () => {
    const args = ["-strict", "-schema-location", schemas ?? ""]
    for (const input of [helm("tollgate", given), textOf("deploy/kubernetes.yaml")]) {
      const { status, stdout } = spawnSync("kubeconform", args, { input, encoding: "utf8" })
      expect({ status, stdout }).toEqual({ status: 0, stdout: "" })
    }
  })

  test("names everything after the release, and takes other values", () => {
    const changed = {
      image: { tag: "9.9.9" },
      config: { admin: { port: 9191 } },
      storage: { className: "fast" },
      nodeSelector: { pool: "gateways" },
    }
    const text = render("edge", merged(values, changed))
    const objects = objectsOf(text)
    expect([...objects.keys()].map((name) => name.split(" ")[1])).toEqual([
      "edge",
      "edge",
      "edge-admin",
      "edge",
      "edge",
      "edge",
    ])
    expect(text).not.toMatch(/app: tollgate|9090/)
    expect(text).toContain("registry.example.com/tollgate:9.9.9")
    expect(text).toContain("storageClassName: fast")
    expect(text).toContain('nodeSelector:\n        pool: "gateways"')
  })

  test("its configuration is one, and its version is the package's", () => {
    const text = JSON.stringify(values.config)
    const { models } = loadConfig(text, { env: { OPENAI_API_KEY: "sk-openai" }, readFile: () => "" })
    expect(models).toHaveLength(1)
    const { version }: { version: string } = JSON.parse(textOf("package.json"))
    expect([chart.version, chart.appVersion]).toEqual([version, version])
  })
})
