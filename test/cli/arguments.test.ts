import { describe, expect, test } from "bun:test"
import type { Command } from "commander"
import { programOf, root } from "../../src/cli/program.ts"
import { pages } from "../docs/blocks.ts"
import { textOf } from "../support/repository.ts"
import { leaves, silent, type, wordsOf } from "./command.ts"

describe("D52 what cannot be understood is one sentence, with the word that was probably meant", () => {
  const rows: readonly [line: string, sentence: string][] = [
    ["acounts", "unknown command 'acounts' (Did you mean accounts?)"],
    ["aduit", "unknown command 'aduit' (Did you mean audit?)"],
    ["xyzzy", `unknown command 'xyzzy'; see "tollgate --help"`],
    ["constructor", `unknown command 'constructor'; see "tollgate --help"`],
    ["keys lits Acme", "unknown command 'lits' (Did you mean list?)"],
    ["accounts shw Acme", "unknown command 'shw' (Did you mean show?)"],
    ["accounts --jsn", "unknown option '--jsn' (Did you mean --json?)"],
    ["audit --constructor", `unknown option '--constructor'; see "tollgate audit --help"`],
    ["audit -j", `unknown option '-j'; see "tollgate audit --help"`],
    ["audit --no-json", "unknown option '--no-json' (Did you mean --json?)"],
    ["calls --account", `option '--account <ACCOUNT>' argument missing; see "tollgate calls --help"`],
    [
      "calls --account --json",
      `option '--account <ACCOUNT>' argument '--json' is invalid. It needs a value; see "tollgate calls --help"`,
    ],
    [
      "credit Acme 5 --reason -h",
      `option '--reason <TEXT>' argument '-h' is invalid. It needs a value; see "tollgate credit --help"`,
    ],
    ["xyzzy --help", `unknown command 'xyzzy'; see "tollgate --help"`],
    ["help keys lits", "unknown command 'lits' (Did you mean list?)"],
    ["audit --json=yes", `unknown option '--json=yes'; see "tollgate audit --help"`],
    [
      "calls --key a --key b",
      `option '--key <ID>' argument 'b' is invalid. It can be given only once; see "tollgate calls --help"`,
    ],
    [
      "calls --state opne",
      `option '--state <STATE>' argument 'opne' is invalid. Allowed choices are open, settled, released, expired; see "tollgate calls --help"`,
    ],
    [
      "completion tcsh",
      `command-argument value 'tcsh' is invalid for argument 'shell'. Allowed choices are bash, zsh, fish; see "tollgate completion --help"`,
    ],
    ["credit Acme", `missing required argument 'amount'; see "tollgate credit --help"`],
    [
      "credit Acme 5 now",
      `too many arguments for 'credit'. Expected 2 arguments but got 3: Acme, 5, now; see "tollgate credit --help"`,
    ],
    ["--json accounts", `unknown option '--json'; see "tollgate --help"`],
    [
      "receipt ''",
      `command-argument value '' is invalid for argument 'id'. It must not be empty; see "tollgate receipt --help"`,
    ],
  ]
  test.each(rows)("%s", async (line, sentence) => {
    const [words = []] = wordsOf([`tollgate ${line}`], {})
    expect(await type(words)).toEqual({ code: 2, out: "", err: `tollgate: ${sentence}\n` })
  })
})

/** The values that the command gets, which does not run. */
async function understood(words: readonly string[]): Promise<unknown> {
  let values: unknown = null
  const restore = leaves(root).map((leaf) => {
    const { run } = leaf
    leaf.run = (given, _runtime, words) => {
      values = JSON.parse(JSON.stringify(leaf.passes_words ? { words } : given))
    }
    return () => {
      leaf.run = run
    }
  })
  try {
    expect(await type(words)).toEqual({ code: 0, out: "", err: "" })
    return values
  } finally {
    for (const each of restore) each()
  }
}

describe("what is understood", () => {
  const rows: readonly [line: string, given: Record<string, unknown>][] = [
    ["audit", {}],
    ["audit --full", { full: true }],
    ["keys list Acme --limit 5", { account: "Acme", limit: "5" }],
    ["keys list Acme --limit=5", { account: "Acme", limit: "5" }],
    ["credit Acme -2.50 --reason x", { account: "Acme", amount: "-2.50", reason: "x" }],
    ["credit --reason -1 Acme 5", { account: "Acme", amount: "5", reason: "-1" }],
    ["accounts create -- --json", { name: "--json" }],
    ["bench --quick --only x", { words: ["--quick", "--only", "x"] }],
    ["bench -- --help", { words: ["--help"] }],
  ]
  test.each(rows)("%s", async (line, given) => {
    expect(await understood(line.split(" "))).toEqual(given)
  })

  const ALL = [...Object.keys(root.commands)]
  test.each([[[]], [["--help"]], [["help"]], [["-h"]]])("%j shows every command", async (words) => {
    const { code, out, err } = await type(words)
    expect({ code, err }).toEqual({ code: 0, err: "" })
    for (const name of ALL) expect(out).toMatch(new RegExp(`^  ${name} `, "m"))
  })

  test.each([
    ["keys", "tollgate keys COMMAND"],
    ["keys --help", "tollgate keys COMMAND"],
    ["help keys", "tollgate keys COMMAND"],
    ["accounts --help", "tollgate accounts COMMAND"],
    ["keys create --help", "tollgate keys create [options] <account>"],
    ["keys create Acme --wrong -h", "tollgate keys create [options] <account>"],
    ["help keys create", "tollgate keys create [options] <account>"],
  ])("%s is help", async (line, usage) => {
    const { code, out, err } = await type(line.split(" "))
    expect({ code, first: out.split("\n")[0], err }).toEqual({ code: 0, first: `Usage: ${usage}`, err: "" })
  })

  test("--version is the version", async () => {
    expect(await type(["--version"])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    })
  })
})

function commands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(commands)]
}
const all = commands(programOf(silent))

test("D52 no flag takes a secret: everybody on a machine may read the words of a running command", () => {
  const flags = all.flatMap(({ options }) => options)
  expect(flags.length).toBeGreaterThan(20)
  const secret = flags.filter(({ flags }) => /token|secret|password|credential/.test(flags))
  // A token for a vendor comes in a file.
  expect(new Set(secret.map(({ flags }) => flags))).toEqual(new Set(["--token-file <FILE>"]))
  // The one flag that speaks of keys takes an id, and the one that speaks of the database takes nothing.
  const named = (word: string) => new Set(flags.filter(({ long }) => long === word).map(({ flags }) => flags))
  expect([...named("--key")]).toEqual(["--key <ID>"])
  expect([...named("--database")]).toEqual(["--database"])
})

describe("help", () => {
  const paths = all.map((command) => {
    const path = []
    for (let at: Command | null = command; at.parent; at = at.parent) path.unshift(at.name())
    return [path, command] as const
  })
  test.each(paths)(
    "%j says what it does, its words, and an example, in lines of a usual terminal",
    async (path, command) => {
      const { out } = await type([...path, "--help"])
      expect(out).toContain(command.summary().split(" ").slice(0, 4).join(" "))
      for (const { description } of [...command.options, ...command.registeredArguments])
        if (command.name() !== "bench") expect(description).toBeTruthy()
      const examples = [...out.matchAll(/^ {2}(tollgate .*)$/gm)].map(([, line = ""]) => line)
      const called = ["tollgate", ...path].join(" ")
      if (command.commands.length === 0) {
        expect(examples.length).toBeGreaterThan(0)
        if (path.at(-1) !== "list") expect(examples.every((line) => line.startsWith(called))).toBeTrue()
      }
      const wide = out.split("\n").filter((line) => line.length > 100 && !examples.includes(line.trim()))
      expect(wide).toEqual([])
    },
  )
})

test("every line in the README and the other pages that calls the command line is understood", async () => {
  const lines = pages.flatMap((page) => {
    const text = textOf(page)
    const blocks = [...text.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block = ""]) => block.split("\n"))
    // Those that are shown with their output, and those that speak to other machines.
    const shown = [...text.matchAll(/^(?:\$| {3}) (tollgate .*)$/gm)].map(([, line = ""]) => line)
    const typed = [...blocks, ...shown]
    return typed.flatMap((line) => {
      const words = /^(?:(?:npx -y bun@1\.4\.5|bun) run )?tollgate (.*?)(?: +#.*)?$/.exec(line)?.[1]
      return words === undefined ? [] : [words]
    })
  })
  expect(lines.length).toBeGreaterThan(80)
  for (const line of lines) {
    const [words = []] = wordsOf([`tollgate ${line}`], {
      CALL: "call",
      ACCOUNT: "account",
      KEY_ID: "key",
      BUDGET: "budget",
      MONTH: "2026-11",
      TO: "2026-12-01",
    })
    expect({ line, understood: await understood(words) }).toMatchObject({ understood: {} })
  }
})
