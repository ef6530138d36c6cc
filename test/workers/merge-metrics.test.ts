import { expect, test } from "bun:test"
import { createMetrics } from "../../src/metrics/metrics.ts"
import { mergeMetrics } from "../../src/workers/supervisor.ts"

test("the series of one metric stand together, beneath one head", () => {
  const one =
    '# HELP a First.\n# TYPE a counter\na{worker="1"} 1\n\n# HELP b Second.\n# TYPE b gauge\nb{worker="1"} 2\n'
  const two = '# HELP a First.\n# TYPE a counter\na{worker="2"} 3\n\n# HELP c Third.\n# TYPE c gauge\n'
  expect(mergeMetrics([one, two])).toBe(
    '# HELP a First.\n# TYPE a counter\na{worker="1"} 1\na{worker="2"} 3\n\n# HELP b Second.\n# TYPE b gauge\nb{worker="1"} 2\n\n# HELP c Third.\n# TYPE c gauge\n',
  )
})

test("what one process prints stays as it is, and no series of two is lost or said twice", async () => {
  const texts = await Promise.all([1, 2].map((worker) => createMetrics(worker).print()))
  expect(mergeMetrics(texts.slice(0, 1))).toBe(texts[0] ?? "")
  const lines = (text: string) => text.split("\n").filter((line) => line !== "")
  const merged = lines(mergeMetrics(texts))
  expect(new Set(merged).size).toBe(merged.length)
  expect(new Set(merged)).toEqual(new Set(texts.flatMap(lines)))
})
