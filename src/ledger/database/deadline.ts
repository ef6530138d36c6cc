/** The result of `work`, or that of `late` if it takes longer than `deadline_ms`. */
export async function withDeadline<Result, Late>(
  work: Promise<Result>,
  deadline_ms: number,
  late: () => Late,
): Promise<Result | Late> {
  const overdue = Promise.withResolvers<void>()
  const timer = setTimeout(overdue.resolve, deadline_ms)
  try {
    return await Promise.race([work, overdue.promise.then(late)])
  } finally {
    clearTimeout(timer)
  }
}
