/**
 * How many cases the fuzzers try, of all kinds together. By hand: `FUZZ_CASES=1000000 FUZZ_SEED=7 bun run test test/abuse/fuzz`.
 * A property that fails prints its seed and the path to the smallest case.
 */
const CASES = Number(process.env.FUZZ_CASES ?? 1_000)
/** The properties of the two files that share the cases. */
const KINDS = 7

/** The options of a property, each run of which tries `at_once` cases. */
export function fuzzing(at_once: number) {
  return { numRuns: Math.ceil(CASES / KINDS / at_once), seed: Number(process.env.FUZZ_SEED ?? 33) }
}

/** Room for as many cases as there are. */
export const FUZZ_MS = 120_000 + CASES * 20
