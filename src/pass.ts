import { open, rename, rm } from "node:fs/promises"
import { join } from "node:path"

/** Where the demo is and the token of its operator, for the command line on the same machine (D52). */
export interface Pass {
  readonly url: string
  readonly admin_token: string
}

/** The file that holds it, as long as the demo runs. */
export function passPath(data_dir: string): string {
  return join(data_dir, "demo-pass")
}

export async function leavePass(data_dir: string, pass: Pass): Promise<void> {
  await writePrivately(passPath(data_dir), `${JSON.stringify(pass, null, 2)}\n`)
}

export async function takePassAway(data_dir: string): Promise<void> {
  await rm(passPath(data_dir), { force: true })
}

/** The pass in such a file; null when `text` is none. */
export function parsePass(text: string): Pass | null {
  const value = jsonOf(text)
  if (typeof value !== "object" || value === null || !("url" in value) || !("admin_token" in value))
    return null
  const { url, admin_token } = value
  return typeof url === "string" && typeof admin_token === "string" ? { url, admin_token } : null
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Only their owner can read and write them. */
export const OWNER_ONLY = 0o600

/** Writes a secret, under another name first: a file that is there is whole. */
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
