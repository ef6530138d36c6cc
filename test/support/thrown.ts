/** What the work is rejected with, on which `expect` is then called: its own `rejects` takes ten times as long. */
export async function thrown(work: unknown): Promise<unknown> {
  try {
    await work
  } catch (error) {
    return error
  }
  throw new Error("the work did not fail")
}
