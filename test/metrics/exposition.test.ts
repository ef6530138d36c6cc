import { describe, expect, test } from "bun:test"
import { createMetrics } from "../../src/metrics/metrics.ts"
import { mergeMetrics } from "../../src/workers/supervisor.ts"
import { textOf } from "../support/repository.ts"
import { everything } from "./everything.ts"
import { lint, parseExposition } from "./exposition.ts"

describe("D53 what is printed", () => {
  test("is strictly Prometheus' format, and the linter has nothing to say of what is ours", async () => {
    const families = parseExposition(await everything().print())
    expect(families.length).toBeGreaterThan(30)
    expect(families.filter(({ name }) => ours(name)).flatMap(lint)).toEqual([])
    expect(families.filter(({ samples }) => samples.length === 0).map(({ name }) => name)).toEqual([])
  })

  test("of several workers too", async () => {
    const texts = await Promise.all([1, 2, 3].map((worker) => everything(createMetrics(worker)).print()))
    const families = parseExposition(mergeMetrics(texts))
    const workers = families.flatMap(({ samples }) => samples.map(({ labels }) => labels.worker))
    expect(new Set(workers)).toEqual(new Set(["1", "2", "3"]))
  })

  test("of a label with quotes, backslashes and line ends", async () => {
    const metrics = createMetrics()
    const model = 'a "model"\\of\nours'
    metrics.tokensCounted(model)
    const families = parseExposition(await metrics.print())
    const counted = families.find(({ name }) => name === "tollgate_token_counts_total")
    expect(counted?.samples).toEqual([{ name: "tollgate_token_counts_total", labels: { model }, value: 1 }])
  })
})

describe("D53 docs/metrics.md", () => {
  const page = textOf("docs/metrics.md")

  test("has a row for every metric that there is, with its labels and its help, and for no other", async () => {
    const rows = page.split("\n").filter((line) => /^\| `\w+` \| (?:counter|gauge|histogram) \|/.test(line))
    expect(rows.sort()).toEqual((await table()).sort())
  })

  test("asks for no metric in a query that there is not", async () => {
    const names = parseExposition(await everything().print()).map(({ name }) => name)
    const asked = new Set(page.match(/(?<!by \()\b(?:gen_ai|tollgate|nodejs|process)_\w+(?=[{[) ])/g))
    const known = (name: string) => names.includes(name.replace(/_(?:bucket|count|sum)$/, ""))
    expect(asked.size).toBeGreaterThan(3)
    expect([...asked].filter((name) => !known(name))).toEqual([])
  })
})

/** One row a metric, in the order in which they are printed. */
async function table(): Promise<string[]> {
  const families = parseExposition(await everything().print())
  return families.map(({ name, type, help, samples }) => {
    const labels = [...new Set(samples.flatMap((sample) => Object.keys(sample.labels)))].filter(
      (label) => label !== "le",
    )
    const labelled = labels.map((label) => `\`${label}\``).join(", ")
    return `| \`${name}\` | ${type} | ${labelled} | ${help} |`
  })
}

function ours(name: string): boolean {
  return /^(?:gen_ai|tollgate)_/.test(name)
}
