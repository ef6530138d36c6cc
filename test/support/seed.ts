import fc, { type PluginInstance } from "fast-check"

/**
 * Loaded before all tests: properties of a check draw the same values in each run, so that a change alone makes a check
 * fail. `PROPERTY_SEED=random` draws others, and a failed property prints its seed.
 */

const { PROPERTY_SEED = "1" } = process.env
if (PROPERTY_SEED !== "random") fc.configureGlobal({ seed: Number(PROPERTY_SEED) })

/**
 * So long a property that failed looks for a smaller example. Where the failure does not come again, such as a refusal by a
 * busy machine, it would look until the test times out, and would not say what failed.
 */
const SHRINK_MS = 20_000

fc.installGlobalPlugin((): PluginInstance<unknown> => {
  let ends_ms = Number.POSITIVE_INFINITY
  return {
    decorateRun: (run) => (value) => {
      if (performance.now() > ends_ms) return new fc.PreconditionFailure(true)
      const note = <Result extends object | null>(result: Result): Result => {
        if (result !== null && "error" in result) ends_ms = Math.min(ends_ms, performance.now() + SHRINK_MS)
        return result
      }
      const result = run(value)
      return result !== null && "then" in result ? result.then(note) : note(result)
    },
  }
})
