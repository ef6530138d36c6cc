import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { createMetrics } from "../../src/metrics/metrics.ts"
import { mergeMetrics } from "../../src/workers/supervisor.ts"
import { everything } from "./everything.ts"
import { type Family, lint, parseExposition } from "./exposition.ts"

describe("the strict reader refuses", () => {
  const HEAD = "# HELP a_seconds A.\n# TYPE a_seconds"
  const bucket = (le: string, value: number) => `a_seconds_bucket{le="${le}"} ${value}`
  const histogram = (...lines: string[]) => [`${HEAD} histogram`, ...lines, ""].join("\n")
  const rows: [string, string][] = [
    ["a sample without a head", "a 1\n"],
    ["a help without a type", "# HELP a A.\na 1\n"],
    ["a type of another metric", "# HELP a A.\n# TYPE b gauge\na 1\n"],
    ["a type that there is not", "# HELP a A.\n# TYPE a meter\na 1\n"],
    ["a metric in two places", "# HELP a A.\n# TYPE a gauge\na 1\n# HELP a A.\n# TYPE a gauge\na 1\n"],
    ["a series twice", '# HELP a A.\n# TYPE a gauge\na{b="1",c="2"} 1\na{c="2",b="1"} 1\n'],
    ["a label twice", '# HELP a A.\n# TYPE a gauge\na{b="1",b="2"} 1\n'],
    ["a label without quotes", "# HELP a A.\n# TYPE a gauge\na{b=1} 1\n"],
    ["a quote that is not escaped", '# HELP a A.\n# TYPE a gauge\na{b="""} 1\n'],
    ["what is no number", "# HELP a A.\n# TYPE a gauge\na one\n"],
    ["a counter below 0", "# HELP a_total A.\n# TYPE a_total counter\na_total -1\n"],
    ["a last line without an end", "# HELP a A.\n# TYPE a gauge\na 1"],
    ["a histogram without +Inf", histogram(bucket("1", 1), "a_seconds_sum 1", "a_seconds_count 1")],
    [
      "a histogram that shrinks",
      histogram(bucket("1", 2), bucket("+Inf", 1), "a_seconds_sum 1", "a_seconds_count 1"),
    ],
    [
      "buckets in disorder",
      histogram(bucket("2", 1), bucket("1", 1), bucket("+Inf", 1), "a_seconds_sum 1", "a_seconds_count 1"),
    ],
    ["a count of its own", histogram(bucket("+Inf", 1), "a_seconds_sum 1", "a_seconds_count 2")],
    ["a histogram without a sum", histogram(bucket("+Inf", 1), "a_seconds_count 1")],
  ]
  test.each(rows)("%s", (_, text) => {
    expect(() => parseExposition(text)).toThrow()
  })

  test("and complains of names that say too little or too much", () => {
    const family = (name: string, type: string): Family => ({ name, type, help: "A.", samples: [] })
    const wrong = [
      "a:counter",
      "a_total:gauge",
      "a_count:gauge",
      "aB:gauge",
      "a_gauge:gauge",
      "a_ms:gauge",
      "a_s:gauge",
    ]
    for (const text of wrong) {
      const [name = "", type = ""] = text.split(":")
      expect(lint(family(name, type))).toHaveLength(1)
    }
    expect(lint(family("a_seconds_total", "counter"))).toEqual([])
  })
})

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
  const page = readFileSync(join(import.meta.dir, "../../docs/metrics.md"), "utf8")

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
