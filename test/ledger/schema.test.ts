import { expect, test } from "bun:test"
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import config from "../../drizzle/config.ts"
import { ROOT } from "../support/repository.ts"

test("`bun run migration` finds every change of the tables in a migration", () => {
  const folder = mkdtempSync(join(tmpdir(), "migrations-"))
  try {
    cpSync(join(ROOT, "drizzle"), join(folder, "drizzle"), { recursive: true })
    const out = relative(ROOT, join(folder, "drizzle"))
    writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, out }))
    const command = ["node_modules/.bin/drizzle-kit", "generate", "--config", join(folder, "config.json")]
    const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, ...command], { cwd: ROOT })
    expect([exitCode, String(stderr)]).toEqual([0, ""])
    expect(String(stdout)).toContain("No schema changes")
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
