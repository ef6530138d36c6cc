/** Where Prometheus' text format ends what it says of one metric. */
const BREAK = "\n\n"

/**
 * One text of several processes' metrics, each of which labels its series with its own name: a metric's series must stand
 * together, beneath what says once what it is.
 */
export function mergeMetrics(texts: readonly string[]): string {
  const series = new Map<string, string[]>()
  for (const block of texts.flatMap((text) => text.trimEnd().split(BREAK))) {
    const [help = "", type = "", ...samples] = block.split("\n")
    const head = `${help}\n${type}`
    const known = series.get(head)
    if (known === undefined) series.set(head, samples)
    else known.push(...samples)
  }
  return `${[...series].map(([head, samples]) => [head, ...samples].join("\n")).join(BREAK)}\n`
}
