import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"

/**
 * `bun run sbom`: prints the bill of materials of a release as CycloneDX 1.6. It names Bun and the packages that a
 * production install takes from `bun.lock`, with their hashes, and nothing that only development needs. The same lock file
 * gives the same text.
 */

const ROOT = join(import.meta.dir, "..")

type Wants = Readonly<Record<string, string>>

interface Manifest {
  readonly name: string
  readonly version: string
  readonly description: string
  readonly license: string
  readonly engines: { readonly bun: string }
  readonly dependencies: Wants
  readonly optionalDependencies: Wants
}

interface LockFile {
  /** `name@version`, source, dependencies and hash; by name, or by path for a nested version. */
  readonly packages: Readonly<Record<string, readonly [string, string, Depends, string]>>
  /** The file of the difference, by `name@version`. */
  readonly patchedDependencies?: Wants
}

interface Depends {
  readonly dependencies?: Wants
  readonly optionalDependencies?: Wants
}

/** A package of the lock file. */
interface Locked {
  readonly path: string
  readonly name: string
  readonly version: string
  readonly integrity: string
  readonly is_optional: boolean
  readonly needs: readonly string[]
}

/** The bill of materials of a manifest and its lock file. */
export function sbom(manifest: Manifest, lock: LockFile) {
  const packages = productionPackages(manifest, lock)
  const application = purlOf(manifest)
  const bun = `pkg:generic/bun@${manifest.engines.bun}`
  const direct = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.optionalDependencies)]
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidOf(JSON.stringify([manifest.version, ...packages.values()]))}`,
    version: 1,
    metadata: {
      component: {
        type: "application",
        "bom-ref": application,
        name: manifest.name,
        version: manifest.version,
        description: manifest.description,
        licenses: [{ license: { id: manifest.license } }],
        purl: application,
      },
    },
    components: [
      { type: "platform", "bom-ref": bun, name: "bun", version: manifest.engines.bun, purl: bun },
      ...[...packages.values()].map((locked) => componentOf(locked, lock.patchedDependencies)),
    ],
    dependencies: [
      { ref: application, dependsOn: [bun, ...direct] },
      { ref: bun, dependsOn: [] },
      ...[...packages.values()].map((locked) => ({ ref: locked.path, dependsOn: locked.needs })),
    ],
  }
}

/** The packages of a production install without peers, by their path in the lock file. */
function productionPackages(manifest: Manifest, { packages }: LockFile): Map<string, Locked> {
  const found = new Map<string, Locked>()
  const visit = (path: string, is_optional: boolean) => {
    const known = found.get(path)
    if (known !== undefined && (is_optional || !known.is_optional)) return
    const entry = packages[path]
    if (entry === undefined) throw new Error(`bun.lock has no package at ${path}`)
    const [id, , { dependencies = {}, optionalDependencies = {} }, integrity] = entry
    const at = id.lastIndexOf("@")
    const needs = [
      ...Object.keys(dependencies).map((name) => ({ path: nearest(packages, path, name), optional: false })),
      ...Object.keys(optionalDependencies).map((name) => ({
        path: nearest(packages, path, name),
        optional: true,
      })),
    ]
    found.set(path, {
      path,
      name: id.slice(0, at),
      version: id.slice(at + 1),
      integrity,
      is_optional,
      needs: [...new Set(needs.map((need) => need.path))],
    })
    for (const need of needs) visit(need.path, is_optional || need.optional)
  }
  for (const name of Object.keys(manifest.dependencies)) visit(name, false)
  for (const name of Object.keys(manifest.optionalDependencies)) visit(name, true)
  return new Map([...found].sort(([one], [other]) => (one < other ? -1 : 1)))
}

/** The path of the version of `name` that the package at `path` gets: the nearest one above it, as in node_modules. */
function nearest(packages: LockFile["packages"], path: string, name: string): string {
  for (let above = path; above !== ""; above = above.slice(0, Math.max(above.lastIndexOf("/"), 0))) {
    if (`${above}/${name}` in packages) return `${above}/${name}`
  }
  return name
}

function componentOf(locked: Locked, patches: Wants = {}) {
  const { name, version, integrity, is_optional } = locked
  const patch = patches[`${name}@${version}`]
  const [scope, bare] = name.startsWith("@") ? name.split("/") : []
  return {
    type: "library",
    "bom-ref": locked.path,
    ...(scope === undefined ? { name } : { group: scope, name: bare }),
    version,
    scope: is_optional ? "optional" : "required",
    hashes: [
      { alg: "SHA-512", content: Buffer.from(integrity.replace(/^sha512-/, ""), "base64").toString("hex") },
    ],
    purl: purlOf(locked),
    ...(patch !== undefined && { pedigree: { patches: [{ type: "unofficial", diff: { url: patch } }] } }),
  }
}

/** The package URL (https://github.com/package-url/purl-spec). */
function purlOf({ name, version }: Pick<Locked, "name" | "version">): string {
  return `pkg:npm/${name.replace("@", "%40")}@${version}`
}

function uuidOf(text: string): string {
  const hex = createHash("sha256").update(text).digest("hex")
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

/** The bill of materials of this folder. */
export function ownSbom() {
  const textOf = (file: string) => readFileSync(join(ROOT, file), "utf8")
  const manifest: Manifest = JSON.parse(textOf("package.json"))
  // The lock file is JSON with commas after the last elements.
  const lock: LockFile = JSON.parse(textOf("bun.lock").replaceAll(/,(?=\s*[\]}])/g, ""))
  return sbom(manifest, lock)
}

if (import.meta.main) console.log(JSON.stringify(ownSbom(), null, 2))
