/** Ctrl-C reaches the gateway twice: from the terminal, and passed on by `bun run`. */
const SAME_SIGNAL_MS = 500

/** What the signals are for. */
export interface Signalled {
  /** SIGTERM or SIGINT: the first drains, a second one hurries (D34). */
  signal(): void
  /** SIGHUP: the configuration is read again. */
  reload(): void
}

/**
 * Listens for signals. One that comes during the start is kept for the gateway that is given later; a second SIGTERM or
 * SIGINT during the start ends the process.
 */
export function hearSignals(): (gateway: Signalled) => void {
  let gateway: Signalled | null = null
  let heard_ms = Number.NEGATIVE_INFINITY
  let ends_early = false
  let reloads_early = false
  const end = () => {
    if (performance.now() - heard_ms < SAME_SIGNAL_MS) return
    heard_ms = performance.now()
    if (gateway !== null) gateway.signal()
    else if (ends_early) process.exit(1)
    else ends_early = true
  }
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, end)
  process.on("SIGHUP", () => {
    if (gateway === null) reloads_early = true
    else gateway.reload()
  })
  return (opened) => {
    gateway = opened
    if (reloads_early) gateway.reload()
    if (ends_early) gateway.signal()
  }
}
