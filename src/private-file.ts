import { open, rename } from "node:fs/promises"

/** Read and written by their owner, and by nobody else. */
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
