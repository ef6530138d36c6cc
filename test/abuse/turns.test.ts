import { expect, spyOn, test } from "bun:test"
import { Pace } from "../../src/admission/memory.ts"
import { testHarness } from "../http/harness.ts"
import { chatWords, sse, usage, usageChunk } from "../support/provider.ts"

const harness = await testHarness()

test("D78 a call, its JSON answer and each part of a stream take their turns", async () => {
  const read = spyOn(Pace.prototype, "read")
  try {
    const { id, key } = await harness.account()
    const small: [string, number] = [id, 2_048]
    expect((await harness.chat(key)).status).toBe(200)
    expect(read.mock.calls).toEqual([small, small])
    read.mockClear()
    harness.provider.replyOnce(sse([...chatWords("a", "b"), usageChunk(usage(10, 5)), "data: [DONE]\n\n"]))
    expect((await harness.chat(key, { stream: true })).status).toBe(200)
    const [call, ...parts] = read.mock.calls
    expect(call).toEqual(small)
    expect(parts.length).toBeGreaterThan(0)
    expect(new Set(parts.map((each) => String(each)))).toEqual(new Set([String(small)]))
  } finally {
    read.mockRestore()
  }
})
