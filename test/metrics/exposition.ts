/** Prometheus' text format, version 0.0.4, read as strictly as its specification is, and judged as `promtool check metrics` does. */

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface Family {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly samples: readonly Sample[]
}

const NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/y
const SAMPLE = new RegExp(String.raw`^(${NAME})(?:\{(.*)\})? (\S+)$`)
const NUMBER = /^(?:[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[+-]Inf|NaN)$/i
const TYPES = ["counter", "gauge", "histogram", "summary", "untyped"]

/** The families in their order. Throws at the first line that the format does not allow. */
export function parseExposition(text: string): Family[] {
  if (!text.endsWith("\n")) throw new Error("the last line has no end")
  const families: (Family & { samples: Sample[] })[] = []
  const lines = text.split("\n").filter((line) => line !== "")
  for (let at = 0; at < lines.length; ) {
    const [, name = "", help = ""] = said(/^# HELP (\S+) (.+)$/, lines[at++])
    const [, typed = "", type = ""] = said(/^# TYPE (\S+) (\S+)$/, lines[at++])
    if (typed !== name || !new RegExp(`^${NAME}$`).test(name))
      throw new Error(`not the type of ${name}: ${typed}`)
    if (!TYPES.includes(type)) throw new Error(`${name} is a ${type}`)
    if (families.some((family) => family.name === name)) throw new Error(`${name} stands in two places`)
    const samples: Sample[] = []
    for (; at < lines.length && !lines[at]?.startsWith("#"); at++) samples.push(parseSample(lines[at] ?? ""))
    const family = { name, type, help, samples }
    check(family)
    families.push(family)
  }
  return families
}

function said(pattern: RegExp, line: string | undefined): RegExpExecArray {
  const match = pattern.exec(line ?? "")
  if (match === null) throw new Error(`not ${pattern}: ${line}`)
  return match
}

function parseSample(line: string): Sample {
  const [, name = "", labelled = "", value = ""] = said(SAMPLE, line)
  if (!NUMBER.test(value)) throw new Error(`no number: ${line}`)
  const labels: Record<string, string> = {}
  LABEL.lastIndex = 0
  while (LABEL.lastIndex < labelled.length) {
    const [, label = "", escaped = ""] = LABEL.exec(labelled) ?? said(/^$/, line)
    if (label in labels) throw new Error(`${label} twice: ${line}`)
    labels[label] = escaped.replace(/\\(.)/g, (_, char) => (char === "n" ? "\n" : char))
  }
  return { name, labels, value: Number(value.replace(/inf$/i, "Infinity")) }
}

/** What the samples of one family must be like, each alone and all together. */
function check({ name, type, samples }: Family): void {
  const suffixes =
    type === "histogram" ? ["_bucket", "_sum", "_count"] : type === "summary" ? ["", "_sum", "_count"] : [""]
  const seen = new Set<string>()
  for (const sample of samples) {
    if (!suffixes.some((suffix) => sample.name === name + suffix))
      throw new Error(`${sample.name} in ${name}`)
    const key = `${sample.name}${keyOf(sample.labels)}`
    if (seen.has(key)) throw new Error(`${key} twice`)
    seen.add(key)
    if ("le" in sample.labels !== sample.name.endsWith("_bucket")) throw new Error(`le in ${key}`)
    if (type !== "gauge" && !(sample.value >= 0)) throw new Error(`${key} is ${sample.value}`)
  }
  if (type === "histogram")
    for (const series of Map.groupBy(samples, ({ labels }) => keyOf(labels, "le")).values())
      checkBuckets(name, series)
}

function checkBuckets(name: string, series: readonly Sample[]): void {
  const buckets = series.filter((sample) => sample.name === `${name}_bucket`)
  const bounds = buckets.map(({ labels }) => Number(labels.le?.replace("Inf", "Infinity")))
  if (bounds.at(-1) !== Number.POSITIVE_INFINITY) throw new Error(`${name} has no bucket +Inf`)
  if (bounds.some((bound, at) => at > 0 && !(bound > (bounds[at - 1] ?? bound))))
    throw new Error(`${name}: ${bounds}`)
  const counts = buckets.map(({ value }) => value)
  if (counts.some((count, at) => at > 0 && count < (counts[at - 1] ?? 0)))
    throw new Error(`${name} is not cumulative: ${counts}`)
  const lastOf = (suffix: string) => series.find((sample) => sample.name === name + suffix)?.value
  if (lastOf("_count") !== counts.at(-1)) throw new Error(`${name}_count is not its bucket +Inf`)
  if (lastOf("_sum") === undefined) throw new Error(`${name} has no sum`)
}

function keyOf(labels: Readonly<Record<string, string>>, but = ""): string {
  return JSON.stringify(
    Object.entries(labels)
      .filter(([label]) => label !== but)
      .sort(),
  )
}

/** What promtool's linter would complain of. */
export function lint({ name, type, help, samples }: Family): string[] {
  const complaints: [boolean, string][] = [
    [help.trim() === "", "has no help"],
    [type === "counter" && !name.endsWith("_total"), "is a counter without _total"],
    [type !== "counter" && name.endsWith("_total"), "ends in _total and is no counter"],
    [/_(?:count|sum|bucket)$/.test(name), "ends like a part of a histogram"],
    [
      /[A-Z]/.test(name) || samples.some(({ labels }) => /[A-Z]/.test(Object.keys(labels).join())),
      "has capitals",
    ],
    [/_(?:counter|gauge|histogram|summary)(?:_|$)/.test(name), "names its type"],
    [
      /_(?:milliseconds|microseconds|ms|us|minutes|hours|kilobytes|megabytes|bits)(?:_|$)/.test(name),
      "is in no base unit",
    ],
    [/_(?:s|sec|b|kb|mb)(?:_total)?$/.test(name), "abbreviates its unit"],
  ]
  return complaints.filter(([wrong]) => wrong).map(([, complaint]) => `${name} ${complaint}`)
}
