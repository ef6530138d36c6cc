import type { Basis, CallState, Ending, Failure, Note } from "../wire/call.ts"

/** Explanations of the ledger's words. An unknown word, from a newer gateway, is shown as it is. */

type Explanations<Word extends string> = Readonly<Record<Word, string>>

const STATES: Explanations<CallState> = {
  open: "The call is in progress, and its hold is in place.",
  settled: "The call was charged, and the rest of the hold was freed.",
  released: "The call was not charged. The whole hold was freed.",
  expired:
    "The gateway stopped unexpectedly. The call was charged by its last checkpoint, and the rest of the hold was freed.",
}

const BASES: Explanations<Basis> = {
  usage: "the usage that the provider reported",
  partial: "the last usage that the provider reported, plus an estimate of the output after it",
  estimate: "an estimate of its tokens",
  none: "nothing",
}

const ENDINGS: Explanations<Ending> = {
  completed: "The provider completed its response.",
  upstream_lost: "The connection to the provider was lost before the response was complete.",
  upstream_silent: "The provider sent nothing for too long, so the gateway stopped waiting.",
  deadline: "The call exceeded its time limit and was stopped.",
  client_left: "The client disconnected before the response was complete.",
  client_stalled: "The client stopped reading and was disconnected.",
  gateway_stopped: "The gateway shut down and stopped the call.",
  gateway_lost: "The gateway stopped unexpectedly during the call.",
}

const FAILURES: Explanations<Failure> = {
  usage_missing: "The response had no usage, or its usage did not cover all of its output",
  usage_invalid: "The response had invalid usage",
  upstream_error: "The provider failed",
  upstream_timeout: "The provider did not answer in time",
  upstream_unavailable: "The provider could not be reached",
  no_output: "The response had no output",
  internal_error: "The gateway had an internal error",
  upstream_lost: "The connection to the provider was lost",
  upstream_silent: "The provider stopped sending",
  deadline: "The call exceeded its time limit",
  client_left: "The client disconnected",
  client_stalled: "The client stopped reading",
  gateway_stopped: "The gateway shut down",
  gateway_lost: "The gateway stopped unexpectedly",
}

const NOTES: Explanations<Note> = {
  cached_clamped:
    "The provider reported more cached tokens than prompt tokens. The number was reduced to the prompt tokens.",
  cached_malformed: "The provider reported an invalid number of cached tokens. It was counted as 0.",
  details_clamped:
    "The provider reported more tokens of one kind than there were tokens, or more than 1,000 searches. The number was reduced.",
  details_malformed: "The provider reported an invalid number of tokens of one kind. It was counted as 0.",
  searches_estimated: "The provider reported no number of searches. One was charged.",
  unpriced:
    "The provider reported audio, images, searches or a service tier without a price. The tokens were charged at a price that the model has.",
  usage_placeholder: "The provider reported usage of 0 although there was output. The usage was ignored.",
  usage_implausible:
    "The provider reported more tokens than the request can cause. The call was charged up to the most that it can cause.",
  usage_unread: "The provider reported numbers with unknown names. They were not charged.",
  total_unexplained: "The parts that the provider reported do not add up to its total.",
  response_too_large:
    "The response exceeded `limits.response` or `limits.event`. It was charged, and not all of it was delivered.",
  overage: "The charge exceeded the hold.",
  settled_late: "The call had already expired when its gateway settled it.",
}

const wordsIn =
  (words: Explanations<string>) =>
  (word: string): string =>
    words[word] ?? word

export const stateWords = wordsIn(STATES)
/** The basis of a charge, to follow "charged by". */
export const basisWords = wordsIn(BASES)
export const endingWords = wordsIn(ENDINGS)
export const failureWords = wordsIn(FAILURES)
export const noteWords = wordsIn(NOTES)

/** `1 call`, `2 calls`. */
export function counted(count: number, noun: string, shown = String(count)): string {
  return `${shown} ${noun}${count === 1 ? "" : "s"}`
}

/** The title of a dimension of usage (D105): `end_user` is "End user", and `tag:team` "Tag team". */
export function dimensionTitle(by: string): string {
  const [first = "", tag] = by.split(":")
  const title = first.charAt(0).toUpperCase() + first.slice(1).replaceAll("_", " ")
  return tag === undefined ? title : `${title} ${tag}`
}
