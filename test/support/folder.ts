import { afterAll } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** A folder of a test file, removed after its last test. */
export function testFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-test-"))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
