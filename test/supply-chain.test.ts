import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { ownSbom, sbom } from "../deploy/sbom.ts"
import { parseDockerfile } from "./docker/image.ts"
import { filesMatching } from "./support/repository.ts"

const ROOT = join(import.meta.dir, "..")
const textOf = (path: string) => readFileSync(join(ROOT, path), "utf8")
const manifest: {
  version: string
  engines: { bun: string }
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
} = JSON.parse(textOf("package.json"))

describe("the bill of materials", () => {
  const made = ownSbom()
  const nameOf = (one: (typeof made.components)[number]) =>
    "group" in one ? `${one.group}/${one.name}` : one.name

  test("is CycloneDX 1.6: its required fields, unique references, and none that points nowhere", () => {
    expect(made).toMatchObject({ bomFormat: "CycloneDX", specVersion: "1.6", version: 1 })
    expect(made.serialNumber).toMatch(
      /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
    )
    const refs = [made.metadata.component, ...made.components].map((one) => one["bom-ref"])
    expect(new Set(refs).size).toBe(refs.length)
    expect(made.dependencies.map(({ ref }) => ref)).toEqual(refs)
    const wanted = made.dependencies.flatMap(({ dependsOn }) => dependsOn)
    expect(wanted.filter((ref) => !refs.includes(ref))).toEqual([])
    expect(refs.filter((ref) => ref !== made.metadata.component["bom-ref"] && !wanted.includes(ref))).toEqual(
      [],
    )
    for (const one of made.components) {
      expect(["library", "platform"]).toContain(one.type)
      expect(one.name).not.toBe("")
      expect(one.purl).toMatch(/^pkg:(?:npm|generic)\/[^@]+@\d[^@]*$/)
      expect(one.purl).toEndWith(`@${one.version}`)
    }
    expect(JSON.stringify(ownSbom())).toBe(JSON.stringify(made))
  })

  test("names what the lock file pins, by the same hash, and nothing that only development needs", () => {
    const lock = textOf("bun.lock")
    const components = made.components.filter(({ type }) => type === "library")
    for (const one of components) {
      if (!("hashes" in one)) throw new Error(`${one.name} has no hash`)
      const hash = Buffer.from(one.hashes[0]?.content ?? "", "hex").toString("base64")
      expect(
        lock.split("\n").filter((line) => line.includes(`["${nameOf(one)}@${one.version}"`))[0],
      ).toContain(hash)
      expect(hash).toHaveLength(88)
    }
    const patched = components
      .filter((one) => "pedigree" in one)
      .map((one) => `${nameOf(one)}@${one.version}`)
    expect(patched).toEqual(
      filesMatching("patches/*").map((path) => path.slice("patches/".length, -".patch".length)),
    )
    const names = components.map(nameOf)
    expect(Object.keys(manifest.dependencies).filter((name) => !names.includes(name))).toEqual([])
    expect(Object.keys(manifest.devDependencies).filter((name) => names.includes(name))).toEqual([])
  })

  test("names the version that each package really gets", () => {
    const hash = `sha512-${Buffer.alloc(64).toString("base64")}`
    const own = {
      ...manifest,
      name: "app",
      description: "",
      license: "MIT",
      optionalDependencies: { b: "1" },
    }
    const found = sbom(
      { ...own, dependencies: { a: "1" } },
      {
        packages: {
          a: ["a@1.0.0", "", { dependencies: { b: "^2", "@s/c": "1" } }, hash],
          "a/b": ["b@2.0.0", "", {}, hash],
          b: ["b@1.0.0", "", {}, hash],
          "@s/c": ["@s/c@1.0.0", "", { dependencies: { b: "1" } }, hash],
          d: ["d@1.0.0", "", {}, hash],
        },
      },
    )
    expect(
      found.components
        .map(({ purl }) => purl)
        .slice(1)
        .sort(),
    ).toEqual(["pkg:npm/%40s/c@1.0.0", "pkg:npm/a@1.0.0", "pkg:npm/b@1.0.0", "pkg:npm/b@2.0.0"])
    expect(found.dependencies.find(({ ref }) => ref === "a")?.dependsOn).toEqual(["a/b", "@s/c"])
    expect(found.dependencies.find(({ ref }) => ref === "@s/c")?.dependsOn).toEqual(["b"])
  })
})

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>
  readonly jobs: Readonly<
    Record<
      string,
      {
        readonly permissions?: Readonly<Record<string, string>>
        readonly steps: readonly { readonly uses?: string; readonly run?: string }[]
      }
    >
  >
}

describe.each(["ci", "release"])("the workflow %s", (name) => {
  const file = `.github/workflows/${name}.yml`
  const { permissions, jobs } = Bun.YAML.parse(textOf(file)) as Workflow

  test("pins every action by its commit, with its version beside it", () => {
    const lines = textOf(file).match(/uses: .*/g) ?? []
    expect(lines.length).toBeGreaterThan(1)
    expect(
      lines.filter((line) => !/^uses: actions\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line)),
    ).toEqual([])
  })

  test("may only read, except where a job says what it writes", () => {
    expect(Object.values(permissions).filter((right) => right !== "read")).toEqual([])
    const writing = Object.values(jobs).flatMap((job) =>
      Object.entries(job.permissions ?? {}).flatMap(([what, right]) => (right === "write" ? [what] : [])),
    )
    const expected = name === "ci" ? [] : ["attestations", "contents", "id-token", "packages"]
    expect(writing.sort()).toEqual(expected)
  })

  test("puts no text of an event into a script", () => {
    const scripts = Object.values(jobs).flatMap(({ steps }) => steps.map(({ run = "" }) => run))
    expect(scripts.filter((script) => script.includes("${{"))).toEqual([])
  })
})

test("the release builds on the base image of the Dockerfile, by its digest", () => {
  const [first] = parseDockerfile(textOf("Dockerfile"))
  expect(first).toEqual({ word: "ARG", rest: `BUN_IMAGE=oven/bun:${manifest.engines.bun}-slim` })
  expect(textOf(".github/workflows/release.yml")).toContain('--build-arg "BUN_IMAGE=$base"')
})
