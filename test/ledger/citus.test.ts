import { beforeAll, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { readMigrationFiles } from "drizzle-orm/migrator"
import { MIGRATIONS } from "../../src/ledger/database/migration.ts"
import { endOne } from "../../src/ledger/money/end.ts"
import { holdOneKey } from "../../src/ledger/money/hold.ts"

/**
 * Forms that Citus 13 refuses on distributed tables, looked for in the text of every statement: Citus is not in Debian, so
 * nothing here runs it. deploy/citus/test.sh runs the ledger's tests on one.
 */
const REFUSED: readonly [what: string, form: RegExp, allowed?: readonly string[]][] = [
  ["a function of the time in RETURNING", /\bRETURNING\b[^)]*\bnow\(\)/i],
  [
    "a function that is not immutable in the WHERE of ON CONFLICT",
    /\bON CONFLICT\b(?:(?!\bRETURNING\b|\n\)).)*\bWHERE\b(?:(?!\bRETURNING\b|\n\)).)*(\bnow\(\)|[+-] interval)/is,
  ],
  [
    "the time inside CASE or COALESCE in an UPDATE",
    /\bUPDATE "tollgate"(?:(?!\bFROM\b|\bWHERE\b|\bRETURNING\b).)*\b(CASE|COALESCE)\b(?:(?!\bFROM\b|\bWHERE\b|\bRETURNING\b).)*\bnow\(\)/is,
  ],
  // Where it is refused, the exact statement is asked.
  [
    "a volatile function in an UPDATE",
    /\bUPDATE "tollgate"(?:(?!\bRETURNING\b|\n\)).)*\bset_config\(/is,
    [holdOneKey.text, endOne.text],
  ],
  ["a function that returns a set in an UPDATE or its locks", /json_array_elements_text(?=.*\bUPDATE\b)/is],
]

let texts: readonly string[] = []
beforeAll(() => {
  const script = join(import.meta.dir, "statement-texts.ts")
  const { stdout, stderr, success } = Bun.spawnSync([process.execPath, script])
  if (!success) throw new Error(stderr.toString())
  texts = JSON.parse(stdout.toString())
})

test("the texts are those of all statements", () => {
  const declared = [...new Bun.Glob("**/*.ts").scanSync({ cwd: SOURCES })]
    .map((path) => readFileSync(join(SOURCES, path), "utf8"))
    .join("\n")
    .match(/= statement\($/gm)
  expect(declared?.length ?? 0).toBeGreaterThan(15)
  expect(texts.length).toBeGreaterThan(declared?.length ?? 0)
  expect(texts).toContain(holdOneKey.text)
  expect(texts.some((text) => text.includes('"suspended_at" = least('))).toBe(true)
})
const SOURCES = join(import.meta.dir, "../../src/ledger")

test.each(REFUSED)("no statement has %s", (_, form, allowed = []) => {
  expect(texts.filter((text) => form.test(text) && !allowed.includes(text))).toEqual([])
})

test("each form is found where it is", () => {
  const wrong = [
    "INSERT INTO t VALUES (1) RETURNING extract(epoch FROM now())",
    "INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 1 WHERE t.at <= now() - interval '1 day'",
    'UPDATE "tollgate"."keys" SET at = coalesce(at, now()) WHERE id = 1',
    holdOneKey.text,
    `SELECT json_array_elements_text($1) FOR NO KEY UPDATE`,
  ]
  expect(REFUSED.map(([, form], at) => form.test(wrong[at] ?? ""))).toEqual(REFUSED.map(() => true))
})

test("no migration adds a check with qualified columns to a table that exists", () => {
  const all = readMigrationFiles({ migrationsFolder: MIGRATIONS }).flatMap(({ sql }) => sql)
  expect(all.filter((text) => /ALTER TABLE.*CHECK \(.*"tollgate"\."\w+"\."/.test(text))).toEqual([])
})
