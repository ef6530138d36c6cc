import { open, rename, rm } from "node:fs/promises"
import { join } from "node:path"
import { objectOf, parseJson } from "../wire/usage.ts"

/** The address and the admin token of the running demo, for the command line on the same machine (D52). */
export interface DemoAccess {
  readonly url: string
  readonly admin_token: string
}

export function demoAccessPath(data_dir: string): string {
  return join(data_dir, "demo-access")
}

export async function writeDemoAccess(data_dir: string, access: DemoAccess): Promise<void> {
  await writePrivately(demoAccessPath(data_dir), `${JSON.stringify(access, null, 2)}\n`)
}

export async function removeDemoAccess(data_dir: string): Promise<void> {
  await rm(demoAccessPath(data_dir), { force: true })
}

export function parseDemoAccess(text: string): DemoAccess | null {
  const { url, admin_token } = objectOf(parseJson(text))
  return typeof url === "string" && typeof admin_token === "string" ? { url, admin_token } : null
}

/** The file mode of a secret: only its owner can read and write it. */
export const OWNER_ONLY = 0o600

/** Writes a secret under another name first, so that the file is always complete. */
export async function writePrivately(path: string, text: string): Promise<void> {
  const draft = `${path}.draft`
  const file = await open(draft, "w", OWNER_ONLY)
  try {
    await file.chmod(OWNER_ONLY)
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(draft, path)
}
