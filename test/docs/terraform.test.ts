import { afterAll, expect, test } from "bun:test"
import { cpSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Workplace } from "../process/workplace.ts"
import { ADMIN_TOKEN } from "../support/gateway.ts"
import { textOf } from "../support/repository.ts"
import { testGateway } from "../support/test-gateway.ts"
import { blocksUnder } from "./blocks.ts"
import { referenceApp } from "./reference-app.ts"
import { play } from "./shell.ts"

/** deploy/terraform, as docs/deploying.md runs it. */

const PAGE = "docs/deploying.md"
const has_terraform = Bun.which("terraform") !== null && Bun.which("curl") !== null
if (!has_terraform) console.warn("SKIPPED: no terraform, so its file is not applied")

const { gateway } = await testGateway()
const place = new Workplace()
const folder = join(place.folder, "deploy/terraform")

afterAll(() => place.clear())

interface Named {
  readonly id: string
  readonly name: string
  readonly balance: string
  readonly suspended: boolean
}
const accounts = async () => (await gateway.admin<{ data: Named[] }>("GET", "/accounts")).data
const budgets = async (id: string) =>
  (await gateway.admin<{ data: { amount: string }[] }>("GET", `/accounts/${id}/budgets`)).data

/** Runs the page's commands; or another command in the same folder. */
async function terraform(command?: string): Promise<string> {
  const env = { CHECKPOINT_DISABLE: "1" }
  const here = { folder: place.folder, url: gateway.url, env }
  const words = { "$(cat admin-token)": ADMIN_TOKEN }
  const blocks = blocksUnder(PAGE, "Terraform", "sh")
  const said = blocks.map((block) => {
    if (command === undefined) return block
    return {
      ...block,
      text: block.text.replace(/^terraform .* init\n/m, "").replace(/^terraform .*$/m, command),
    }
  })
  return play(said, { ...here, words })
}

test("asks only for paths that there are", () => {
  const routes = referenceApp().routes.map(({ path }) => path.replaceAll(/:\w+/g, "ID"))
  const asked = [
    ...textOf("deploy/terraform/main.tf").matchAll(/"\$\{(?:var|self\.input)\.url\}(\/[^"]+)"/g),
  ].map(([, path = ""]) => path.replaceAll(/\$\{[^}]+\}/g, "ID"))
  expect(asked).toEqual([
    "/admin/accounts",
    "/admin/accounts/ID/credits",
    "/admin/accounts/ID/budgets",
    "/admin/budgets/ID",
  ])
  expect(asked.filter((path) => !routes.includes(path))).toEqual([])
})

test.skipIf(!has_terraform)(
  "makes accounts, credits and budgets, and moves no money twice",
  async () => {
    cpSync(join(import.meta.dir, "../../deploy/terraform"), folder, { recursive: true })
    const [variables] = blocksUnder(PAGE, "Terraform", "hcl")
    writeFileSync(join(folder, "accounts.auto.tfvars"), variables?.text ?? "")
    expect(await terraform()).toContain("6 added")
    const made = await accounts()
    expect(made.map(({ name, balance }) => `${name} ${balance}`).sort()).toEqual(["Acme 25", "Globex 10"])
    const acme = made.find(({ name }) => name === "Acme")?.id ?? "none"
    expect(await budgets(acme)).toMatchObject([{ amount: "500" }])
    expect(await terraform()).toContain("0 added")

    // The state is lost: the same requests come again.
    rmSync(join(folder, "terraform.tfstate"))
    expect(await terraform()).toContain("6 added")
    expect((await accounts()).map(({ balance }) => balance).sort()).toEqual(["10", "25"])

    const other = (variables?.text ?? "").replace(
      'credit = "25", budget = "500"',
      'credit = "5", budget = "600"',
    )
    writeFileSync(join(folder, "accounts.auto.tfvars"), other)
    await terraform()
    expect((await gateway.balance(acme)).balance).toBe("30")
    expect(await budgets(acme)).toMatchObject([{ amount: "600" }])

    await terraform(`terraform -chdir=deploy/terraform destroy -auto-approve -var url=${gateway.url}`)
    expect((await accounts()).map(({ suspended }) => suspended)).toEqual([true, true])
    expect(await budgets(acme)).toEqual([])
  },
  120_000,
)
