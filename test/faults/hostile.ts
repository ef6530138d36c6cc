import { readFileSync, writeFileSync } from "node:fs"
import { PRICE, PROVIDER_KEY, untilIs } from "../support/gateway.ts"
import { FAIR } from "../support/link.ts"
import type { Exchange, Script } from "../support/provider.ts"
import type { Scene, Victim } from "./scene.ts"

/** What the tests of hostile providers share: their limits and floods, and the memory that the gateway takes. */

const LIMIT_BYTES = 8 << 20
/** Beyond the configured limit; measured, limit and all, at a load of 10: a JSON body 15 to 20 MB, all others 0 to 11 MB. */
const SPARE_BYTES = 16 << 20
/**
 * Each event that differs from all others is parsed on its own. What parsing leaves behind stays until the runtime collects
 * it, which is when there is as much of it as of what lives. Measured: 9 to 54 MB, then no more, however long the flood; where
 * the runtime is told that it has little memory (BUN_JSC_forceRAMSize=100000000), 15 to 21 MB.
 */
const GARBAGE_BYTES = 64 << 20
export const OFFERED_BYTES = 256 << 20

/** The configuration that the floods are measured against: one upstream, and one model of its family. */
export function hostileTo(base_url: string, family: "chat" | "messages") {
  return {
    lease: { renew: "1s", expire: "60s" },
    limits: { response: "8MiB", response_read: "32MiB", event: "8MiB" },
    upstreams: {
      first: {
        family,
        base_url,
        api_key: PROVIDER_KEY,
        timeouts: { first_byte: "10s", idle: "2s", total: "60s" },
      },
    },
    models: [
      {
        name: `${family}-model`,
        family,
        upstreams: [{ use: "first", model: "upstream-model" }],
        price: PRICE,
        max_output_tokens: 4_000_000,
        hold_output_tokens: 1_000,
      },
    ],
  }
}

/** How a stream begins whose provider has said nothing for a while. */
export const COMMIT = ": ok\n\n"
export const EVENT_STREAM = { "content-type": "text/event-stream" }
export const JSON_BODY = { "content-type": "application/json" }

/** The record of a call that cost nothing. */
export const RELEASED = { state: "released", charge: "0", basis: "none" }

/** As much of the same as is taken, at most `OFFERED_BYTES`. */
export async function pour(exchange: Exchange, piece: string | Uint8Array): Promise<void> {
  for (let sent = 0; sent < OFFERED_BYTES && (await exchange.chunk(piece)); ) sent += piece.length
}

/** A success that begins like this, inside a text, and never ends. */
export function endless(headers: Readonly<Record<string, string>>, begin: string): Script {
  return async (exchange) => {
    await exchange.head(200, headers)
    await exchange.chunk(begin)
    await pour(exchange, "x".repeat(65_536))
  }
}

/** A stream of so many thousand events, each given its number, and nothing else. */
export function flood(thousands: number, event: (n: number) => string): Script {
  return async (exchange) => {
    await exchange.head(200, EVENT_STREAM)
    for (let sent = 0; sent < thousands; sent++) {
      const events = Array.from({ length: 1_000 }, (_, n) => event(sent * 1_000 + n))
      if (!(await exchange.chunk(events.join("")))) return
    }
    await exchange.end()
  }
}

export async function callOf(scene: Scene, account_id: string) {
  await untilIs(() => scene.steady.balance(account_id), { held: "0" })
  const [call] = await scene.steady.calls(`?account=${account_id}`)
  return call
}

/** By how many bytes the highest memory of the gateway grows while `run` runs. */
export async function growthOf({ gateway: { pid } }: Victim, run: () => Promise<void>): Promise<number> {
  // 5 resets the peak to what the process has now (proc_pid_clear_refs(5)).
  writeFileSync(`/proc/${pid}/clear_refs`, "5")
  const before_bytes = peakBytes(pid)
  await run()
  return peakBytes(pid) - before_bytes
}

function peakBytes(pid: number): number {
  const [, kilobytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? []
  return Number(kilobytes) * 1024
}

/** How much it may grow in the test of this name: some leave garbage. */
export function allowedBytes(name: string): number {
  const garbage_bytes = /each of them new|a JSON body without|bomb/.test(name) ? GARBAGE_BYTES : 0
  return LIMIT_BYTES + SPARE_BYTES + garbage_bytes
}

export function mend({ upstream }: Victim): void {
  upstream.weather = FAIR
  if (upstream.stalled) upstream.heal()
}
