import { describe, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { ROOT, textOf } from "../support/repository.ts"

/** docs/development.md: the files, scripts and versions that it names are there. */

const page = textOf("docs/development.md")
const manifest: { version: string; scripts: Record<string, string> } = JSON.parse(textOf("package.json"))

describe("docs/development.md", () => {
  test("every file and folder of the picture is there, and every folder of src is in it", () => {
    const picture = /\n {4}src\/\n([\s\S]*?)\n\n/.exec(page)?.[1] ?? ""
    const names = picture.split("\n").flatMap((line) => {
      const within = line.startsWith("      ") ? "src" : "."
      const words = /^\s*((?:[\w./-]+(?:\.ts|\/) ?)+)/.exec(line)?.[1]?.trim().split(" ") ?? []
      return words.map((word) => join(within, word))
    })
    expect(names.length).toBeGreaterThan(15)
    expect(names.filter((name) => !existsSync(join(ROOT, name)))).toEqual([])
    const folders = [...new Bun.Glob("src/*/").scanSync({ cwd: ROOT, onlyFiles: false })].map(
      (folder) => `${folder.replace(/\/$/, "")}/`,
    )
    expect(folders.length).toBeGreaterThan(10)
    expect(folders.filter((folder) => !names.includes(folder))).toEqual([])
  })

  test("every path that it names is there", () => {
    const paths = [
      ...page.matchAll(/`((?:src|bench|test|docs|drizzle|deploy|\.github|\.ci)\/[\w./-]+)`/g),
    ].map(([, path = ""]) => path)
    expect(paths.length).toBeGreaterThan(10)
    expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
  })

  test("every name that it gives with a file is in that file", () => {
    const named = [...page.matchAll(/((?:`#?\w+`(?:,| and|,? or)? )+)(?:in|of) `(src\/[\w./-]+\.ts)`/g)]
    const pairs = named.flatMap(([, names = "", path = ""]) =>
      [...names.matchAll(/\w+/g)]
        .filter(([name]) => !["and", "or"].includes(name))
        .map(([name]) => [name, path]),
    )
    expect(pairs.length).toBeGreaterThan(20)
    const isMissing = ([name = "", path = ""]: string[]) => !textOf(path).match(/\w+/g)?.includes(name)
    expect(pairs.filter(isMissing)).toEqual([])
  })

  test("every script that it names is one of the package", () => {
    const scripts = [...page.matchAll(/\bbun run (\w+)/g)].map(([, script = ""]) => script)
    expect(scripts.length).toBeGreaterThan(8)
    expect(scripts.filter((script) => !(script in manifest.scripts))).toEqual([])
  })
})

test("CHANGELOG.md has a dated section for the version of the package", () => {
  const changelog = textOf("CHANGELOG.md")
  expect(changelog).toContain("## [Unreleased]")
  expect(changelog).toMatch(
    new RegExp(`^## \\[${manifest.version.replaceAll(".", "\\.")}\\] - \\d{4}-\\d\\d-\\d\\d$`, "m"),
  )
})

describe(".github/", () => {
  const parsed = (path: string) => JSON.stringify(Bun.YAML.parse(textOf(path)))

  test("hosted CI runs .ci/run, with the oldest Node that the pages name or a newer one", () => {
    const workflow = parsed(".github/workflows/ci.yml")
    expect(workflow).toContain('{"run":".ci/run"}')
    const [, node] = /"node-version":(\d+)/.exec(workflow) ?? []
    const [, oldest] = /Node (\d+) or later/.exec(textOf("README.md")) ?? []
    expect(Number(node)).toBeGreaterThanOrEqual(Number(oldest))
  })

  test.each(["bug", "feature"])("the form %s.yml has a name and fields", (name) => {
    const form = parsed(`.github/ISSUE_TEMPLATE/${name}.yml`)
    expect(form).toMatch(/"name":"\w+","description":"[^"]+"/)
    expect(form.match(/"type":"(?:textarea|input)","id":/g)?.length).toBeGreaterThan(2)
  })
})
