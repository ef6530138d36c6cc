import { describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../../src/cli/program.ts"
import { Shell, type } from "./command.ts"

const shell = new Shell()
for (const name of ["bash", "zsh", "fish"])
  writeFileSync(join(shell.folder, `complete.${name}`), (await type(["completion", name])).out)

describe("completion scripts", () => {
  test.each([
    ["bash", "bash -n complete.bash"],
    ["zsh", "zsh -n complete.zsh"],
    ["fish", "fish --no-execute complete.fish"],
  ])("%s can read its own", async (name, line) => {
    if (Bun.which(name) === null) return
    expect(await shell.run(line)).toEqual({ code: 0, out: "", err: "" })
  })

  test.each(["bash", "zsh", "fish"])("%s is told every command", async (name) => {
    const { out } = await type(["completion", name])
    for (const command of Object.keys(root.commands)) expect(out).toContain(command)
    expect(out).toStartWith("# To install it permanently: tollgate completion")
  })

  const rows: readonly [typed: string, offered: string][] = [
    ["tollgate ''", `${Object.keys(root.commands).join(" ")} --help`],
    ["tollgate ac", "accounts"],
    ["tollgate keys ''", "list create change limit suspend resume rotate revoke --help"],
    ["tollgate keys re", "resume revoke"],
    ["tollgate calls --st", "--state"],
    ["tollgate calls --state ''", "open settled released expired"],
    ["tollgate calls --operation m", "messages"],
    ["tollgate completion ''", "bash zsh fish --help"],
    ["tollgate calls --model ''", ""],
    ["tollgate check --config complete.f", "complete.fish"],
    ["tollgate xyzzy ''", ""],
  ]
  test.skipIf(Bun.which("bash") === null)("bash offers what may come next", async () => {
    const lines = rows.map(([typed]) => `try ${typed}`)
    const script = [
      "source ./complete.bash",
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a parameter of the shell
      'try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tollgate; echo "${COMPREPLY[*]}"; }',
      ...lines,
    ].join("\n")
    writeFileSync(join(shell.folder, "try.bash"), script)
    const { out, err } = await shell.run("bash try.bash")
    expect({ offered: out.split("\n").slice(0, -1), err }).toEqual({
      offered: rows.map(([, offered]) => offered),
      err: "",
    })
  })
})
