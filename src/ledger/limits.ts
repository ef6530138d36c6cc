/** How long a call waits for the books (D27). */
export const ANSWER_MS = 2_000
/** How many calls may wait on one lane that can refuse them. */
export const LANE_LIMIT = 4_096
/**
 * How many lanes reserve, and how many close: accounts are spread over them, so that they do not wait for one another. More lanes
 * make smaller batches: measured on two cores over 1,000 accounts, two carry 7,100 holds and settlements a second, four 4,200.
 */
export const LANES = 2
