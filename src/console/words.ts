/** What the words of the books mean, in plain ones. A word that a newer gateway wrote is shown as it is. */

type Words = Readonly<Record<string, string>>

const STATES: Words = {
  open: "It is still running; the hold stands.",
  settled: "It was charged, and the rest of the hold was given back.",
  released: "Nothing was charged; the whole hold was given back.",
  expired: "Its gateway died; it was charged by the last checkpoint, and the rest was given back.",
}

const BASES: Words = {
  usage: "the provider's own usage",
  partial: "the last usage the provider sent, and an estimate of the output after it",
  estimate: "an estimate of the output that was seen",
  none: "nothing",
}

const ENDINGS: Words = {
  completed: "The provider finished its answer.",
  upstream_lost: "The provider's connection broke before the end.",
  upstream_silent: "The provider fell silent, and was given up.",
  deadline: "The call took longer than it may, and was cut.",
  client_left: "The client left before the end.",
  client_stalled: "The client took nothing any more, and was cut.",
  gateway_stopped: "The gateway was shut down, and cut the call.",
  gateway_lost: "The gateway died while the call ran.",
}

const FAILURES: Words = {
  usage_missing: "The answer had no usage",
  usage_invalid: "The answer's usage made no sense",
  upstream_error: "The provider failed",
  upstream_timeout: "The provider took too long",
  upstream_unavailable: "The provider could not be reached",
  no_output: "The answer had no output",
  internal_error: "The gateway failed",
  upstream_lost: "The provider's connection broke",
  upstream_silent: "The provider fell silent",
  deadline: "The call took too long",
  client_left: "The client left",
  client_stalled: "The client stopped reading",
  gateway_stopped: "The gateway was shut down",
  gateway_lost: "The gateway died",
}

const NOTES: Words = {
  cached_clamped: "The provider reported more cached tokens than prompt tokens; they were cut to fit.",
  cached_malformed: "The provider's count of cached tokens made no sense, and was taken as none.",
  usage_placeholder: "The provider reported usage of 0 beside output; it was not believed.",
  usage_implausible:
    "The provider reported more tokens than the request can have caused; it was not believed.",
  response_too_large: "The answer was larger than the gateway delivers; it was read for its usage only.",
  overage: "The charge was above what was held.",
  settled_late: "It had expired when its gateway, which was only frozen, settled it after all.",
}

export function stateWords(state: string): string {
  return STATES[state] ?? state
}

/** What a charge rests on, to follow "charged by". */
export function basisWords(basis: string): string {
  return BASES[basis] ?? basis
}

export function endingWords(ending: string): string {
  return ENDINGS[ending] ?? ending
}

export function failureWords(failure: string): string {
  return FAILURES[failure] ?? failure
}

export function noteWords(note: string): string {
  return NOTES[note] ?? note
}

/** `1 call`, `2 calls`. */
export function counted(count: number, noun: string, shown = String(count)): string {
  return `${shown} ${noun}${count === 1 ? "" : "s"}`
}
