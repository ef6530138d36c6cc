/** What a client's call fails with; null when it does not. Their promises are lazy, which `expect().rejects` does not see. */
export function failureOf(call: PromiseLike<unknown>): PromiseLike<unknown> {
  return call.then(
    () => null,
    (error: unknown) => error,
  )
}
