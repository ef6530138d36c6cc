import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { syncFile } from "./durable.ts"
import { defaultRunner, giveTo, type Runner, reaches } from "./runner.ts"

/** Where the cluster of a data directory lives, and who runs it. */
export interface Place {
  readonly folder: string
  /** Undefined when the gateway is not root: then Postgres runs as the gateway's own user. */
  readonly runner: Runner | undefined
}

/** Where clusters live whose runner cannot enter their data directory. */
const CLOSED_PLACES = "/var/lib/tollgate"

/**
 * The place of `data_dir`'s cluster, created if there is none. It is below `data_dir`. If the gateway is root and its
 * runner cannot enter that, it is a separate folder, and a file in `data_dir` names it.
 */
export function findPlace(data_dir: string): Place {
  const inside = insideOf(data_dir)
  const existing = existingPlace(data_dir)
  if (process.geteuid?.() !== 0) return { folder: existing ?? open(inside), runner: undefined }
  if (existing !== null) return { folder: existing, runner: ownerOf(existing) }
  const runner = defaultRunner()
  if (reaches(runner, data_dir)) return { folder: giveTo(runner, open(inside)), runner }
  mkdirSync(CLOSED_PLACES, { recursive: true })
  chmodSync(CLOSED_PLACES, 0o755)
  const folder = giveTo(runner, mkdtempSync(join(CLOSED_PLACES, "books-")))
  const pointer = pointerOf(data_dir)
  writeFileSync(`${pointer}.new`, `${folder}\n`)
  syncFile(`${pointer}.new`)
  renameSync(`${pointer}.new`, pointer)
  return { folder, runner }
}

/** The folder of the place that an earlier start made; null when none did. */
export function existingPlace(data_dir: string): string | null {
  const pointer = pointerOf(data_dir)
  if (!existsSync(pointer)) return existsSync(insideOf(data_dir)) ? insideOf(data_dir) : null
  const named = readFileSync(pointer, "utf8").trim()
  if (existsSync(named)) return named
  throw new Error(
    `the database of ${data_dir} is in ${named}, which no longer exists: restore it, or remove ${pointer}`,
  )
}

function insideOf(data_dir: string): string {
  return join(data_dir, "postgres")
}

function pointerOf(data_dir: string): string {
  return join(data_dir, "postgres.place")
}

function open(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folder
}

/** The owner of the folder of an earlier start. Root only if that start was killed before it changed the owner. */
function ownerOf(folder: string): Runner {
  const { uid, gid } = statSync(folder)
  if (uid !== 0) return { uid, gid }
  const runner = defaultRunner()
  giveTo(runner, folder)
  return runner
}
