import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseCommandLine } from "../../src/cli/arguments.ts"
import { UsageError } from "../../src/cli/cli-error.ts"
import type { Command } from "../../src/cli/command.ts"
import { helpOf } from "../../src/cli/help.ts"
import { root } from "../../src/cli/program.ts"
import { painter } from "../../src/paint.ts"
import { wordsOf } from "./command.ts"

const plain = painter(false, {})

describe("D52 what cannot be understood is one sentence, with the word that was probably meant", () => {
  const rows: readonly [line: string, sentence: string][] = [
    ["acounts", 'unknown command "tollgate acounts"; did you mean "tollgate accounts"?'],
    ["aduit", 'unknown command "tollgate aduit"; did you mean "tollgate audit"?'],
    ["acc", 'unknown command "tollgate acc"; did you mean "tollgate accounts"?'],
    ["xyzzy", 'unknown command "tollgate xyzzy"; "tollgate --help" lists the commands'],
    ["constructor", 'unknown command "tollgate constructor"; "tollgate --help" lists the commands'],
    ["keys lits Acme", 'unknown command "tollgate keys lits"; did you mean "tollgate keys list"?'],
    ["accounts --jsn", "unknown flag --jsn; did you mean --json?"],
    ["audit --constructor", 'unknown flag --constructor; see "tollgate audit --help"'],
    ["audit -j", 'unknown flag -j; see "tollgate audit --help"'],
    ["audit --no-json", 'unknown flag --no-json; see "tollgate audit --help"'],
    ["calls --account", "--account needs a value"],
    ["calls --account --json", "--account needs a value"],
    ["audit --json=yes", "--json takes no value"],
    ["audit --json --json", "--json can be given only once"],
    ["calls --state opne", "--state: expected one of open, settled, released, expired"],
    ["completion tcsh", "SHELL: expected one of bash, zsh, fish"],
    ["credit Acme", 'AMOUNT is required; see "tollgate credit --help"'],
    ["credit Acme 5 now", 'unexpected argument "now"; see "tollgate credit --help"'],
    ["--json accounts", "--json must come after a command"],
  ]
  test.each(rows)("%s", (line, sentence) => {
    expect(() => parseCommandLine(root, line.split(" "))).toThrow(new UsageError(sentence))
  })

  test("an empty word, which is somebody's unset variable", () => {
    expect(() => parseCommandLine(root, ["receipt", ""])).toThrow(new UsageError("ID must not be empty"))
  })
})

describe("what is understood", () => {
  const rows: readonly [line: string, path: string, values: Record<string, string | true>][] = [
    ["accounts", "", {}],
    ["accounts --json", "", { json: true }],
    ["accounts list --limit 5", "list", { limit: "5" }],
    ["accounts list --limit=5", "list", { limit: "5" }],
    ["credit Acme -2.50 --reason x", "", { account: "Acme", amount: "-2.50", reason: "x" }],
    ["credit --reason -1 Acme 5", "", { account: "Acme", amount: "5", reason: "-1" }],
    ["accounts create -- --json", "create", { name: "--json" }],
    ["bench --quick --only x", "", {}],
  ]
  test.each(rows)("%s", (line, below, values) => {
    const asked = parseCommandLine(root, line.split(" "))
    const [first = "", ...words] = line.split(" ")
    const path = below === "" ? [first] : [first, below]
    expect(asked).toMatchObject({ what: "run", path, values: new Map(Object.entries(values)) })
    expect(asked).toMatchObject({ words: below === "" ? words : words.slice(1) })
  })

  test.each([[[]], [["--help"]], [["help"]], [["-h"]]])("%j shows every command", (words) => {
    const asked = parseCommandLine(root, words)
    expect(asked).toEqual({ what: "help", path: [], command: root })
  })

  test.each(["keys", "keys --help", "help keys"])("%s shows the commands below", (line) => {
    expect(parseCommandLine(root, line.split(" "))).toMatchObject({ what: "help", path: ["keys"] })
  })

  test.each(["keys create --help", "keys create Acme --wrong -h", "help keys create"])(
    "%s is help",
    (line) => {
      expect(parseCommandLine(root, line.split(" "))).toMatchObject({
        what: "help",
        path: ["keys", "create"],
      })
    },
  )
})

/** Every command by the words that call it. */
function commands(command: Command, path: readonly string[] = []): [string[], Command][] {
  const below = command.kind === "leaf" ? [] : Object.entries(command.commands)
  return [[[...path], command], ...below.flatMap(([name, each]) => commands(each, [...path, name]))]
}

test("D52 no flag takes a secret: everybody on a machine may read the words of a running command", () => {
  const flags = commands(root).flatMap(([, command]) =>
    command.kind === "leaf" ? Object.entries(command.args) : [],
  )
  expect(flags.length).toBeGreaterThan(20)
  expect(flags.filter(([name]) => /token|secret|password|credential/.test(name))).toEqual([])
  // The one flag that speaks of keys takes an id, and the one that speaks of the database takes nothing.
  expect(
    flags
      .filter(([name]) => name === "key")
      .every(([, { valueHint }]) => valueHint === undefined || valueHint === "ID"),
  ).toBeTrue()
  expect(
    flags.filter(([name]) => name === "database").every(([, argument]) => argument.type === "boolean"),
  ).toBeTrue()
})

describe("help", () => {
  test.each(commands(root))(
    "%j summary what it does, how it is called, its flags, and an example",
    (path, command) => {
      const help = helpOf(path, command, plain)
      expect(help).toStartWith(command.summary)
      expect(help).toContain(["\n  tollgate", ...path].join(" "))
      if (command.kind === "group") {
        for (const name of Object.keys(command.commands)) expect(help).toMatch(new RegExp(`^  ${name} `, "m"))
        return
      }
      expect(
        command.examples.every(
          ([line]) => line.startsWith(["tollgate", ...path].join(" ").trim()) || path.at(-1) === "list",
        ),
      ).toBeTrue()
      for (const [line] of command.examples) expect(help).toContain(`\n  ${line}\n`)
      for (const [name, argument] of Object.entries(command.args)) {
        expect(help).toContain(argument.type === "positional" ? name.toUpperCase() : `--${name}`)
        expect(argument.description).toBeTruthy()
      }
    },
  )

  test("no line is wider than a terminal usually is", () => {
    const lines = commands(root).flatMap(([path, command]) => helpOf(path, command, plain).split("\n"))
    const examples = commands(root).flatMap(([, each]) => (each.kind === "leaf" ? each.examples : []))
    const wide = lines.filter(
      (line) => line.length > 100 && !examples.some(([example]) => line.includes(example)),
    )
    expect(wide).toEqual([])
  })
})

describe("every line in the README and the other pages that calls the command line is understood", () => {
  const ROOT = join(import.meta.dir, "../..")
  const pages = ["README.md", ...new Bun.Glob("docs/*.md").scanSync({ cwd: ROOT })]
  const lines = pages.flatMap((page) => {
    const blocks = readFileSync(join(ROOT, page), "utf8").matchAll(/```sh\n([\s\S]*?)```/g)
    const typed = [...blocks].flatMap(([, block = ""]) => block.split("\n"))
    return typed.flatMap((line) => {
      const words = /^(?:(?:npx -y bun@1\.4\.5|bun) run )?tollgate (.*?)(?: +#.*)?$/.exec(line)?.[1]
      return words === undefined ? [] : [[page, words] as const]
    })
  })

  test("there are some", () => {
    expect(lines.length).toBeGreaterThan(8)
  })

  test.each(lines)("%s: tollgate %s", (_page, line) => {
    const [words = []] = wordsOf([`tollgate ${line}`], { CALL: "call", ACCOUNT: "account", KEY_ID: "key" })
    expect(parseCommandLine(root, words).what).toBe("run")
  })
})
