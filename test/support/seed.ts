import fc from "fast-check"

/**
 * Loaded before all tests: properties of a check draw the same values in each run, so that a change alone makes a check
 * fail. `PROPERTY_SEED=random` draws others, and a failed property prints its seed.
 */

const { PROPERTY_SEED = "1" } = process.env
if (PROPERTY_SEED !== "random") fc.configureGlobal({ seed: Number(PROPERTY_SEED) })
