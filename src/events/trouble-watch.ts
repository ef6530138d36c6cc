import type { Trouble } from "../wire/alerts.ts"

/** Alerts about upstreams, from the breakers of this process (D96). */

/** Shorter than the rest of an upstream or a key, so that none is missed. */
const LOOK_MS = 5_000
/** A trouble that is over is told for so long, because an alert may have to wait. */
const OVER_MS = 180_000
/** The interval at which troubles that another process has left behind are ended. */
const ALL_MS = 60_000

/** `read`: the troubles that upstreams could have, and whether they have them now. */
export function watchTroubles(
  read: () => readonly Trouble[],
  write: (seen: readonly Trouble[]) => Promise<void>,
) {
  const last_on_ms = new Map<string, number>()
  let wrote_all_ms = Number.NEGATIVE_INFINITY
  let writing: Promise<void> | null = null

  function check(now_ms = performance.now()): void {
    if (writing !== null) return
    const seen = read()
    for (const each of seen) if (each.is_on) last_on_ms.set(keyOf(each), now_ms)
    const is_all = now_ms - wrote_all_ms >= ALL_MS
    const due = seen.filter((each) => {
      const last_ms = last_on_ms.get(keyOf(each)) ?? Number.NEGATIVE_INFINITY
      return is_all || now_ms - last_ms < OVER_MS
    })
    if (due.length === 0) return
    const written = write(due).then(
      () => {
        if (is_all) wrote_all_ms = now_ms
      },
      // The ledger says in the log that its database is unavailable.
      () => {},
    )
    writing = written.finally(() => {
      writing = null
    })
  }

  const timer = setInterval(() => check(), LOOK_MS)
  return {
    check,
    async stop(): Promise<void> {
      clearInterval(timer)
      await writing
    },
  }
}

const keyOf = ({ upstream, key, trouble }: Trouble) => JSON.stringify([upstream, key, trouble])
