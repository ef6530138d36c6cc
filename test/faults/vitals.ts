import { readdirSync, readFileSync, readlinkSync } from "node:fs"
import { join } from "node:path"
import type { Variables } from "../process/gateway-process.ts"
import type { Victim } from "./scene.ts"

/** What a gateway's process holds, as the kernel and the process itself count it. */
export interface Vitals {
  readonly descriptors: number
  readonly sockets: number
  readonly timers: number
  readonly resident_bytes: number
}

/** What a process is started with that is to tell its timers. */
export const TELLING: Variables = { BUN_OPTIONS: `--preload=${join(import.meta.dir, "timers.ts")}` }

/** A lease is renewed three times a second, with a timer and a statement of its own: what a rest holds is the most of so many looks. */
const LOOKS = 10
const LOOK_MS = 100
const BACK_LOOKS = 100
/** After so many, everything that was tried again is done. */
const LATE_LOOKS = 50
/** The runtime keeps memory that was free once; what is lost at each call shows under a longer load. */
const SPARE_BYTES = 64 << 20
/** A pool keeps what a busy moment opened for a while. A leak would show at each of hundreds of calls. */
const SPARE_SOCKETS = 2

/** What a gateway holds that has nothing to do. */
export async function atRest(victim: Victim): Promise<Vitals> {
  let most = await look(victim)
  for (let looks = 1; looks < LOOKS; looks++) {
    await Bun.sleep(LOOK_MS)
    const now = await look(victim)
    most = {
      descriptors: Math.max(most.descriptors, now.descriptors),
      sockets: Math.max(most.sockets, now.sockets),
      timers: Math.max(most.timers, now.timers),
      resident_bytes: Math.max(most.resident_bytes, now.resident_bytes),
    }
  }
  return most
}

/**
 * What a gateway still holds beyond what it held at rest, in words; null once it has given it back. What it was late with may
 * have opened a connection that is kept: all are cut once by `renew`, and rest opens its own again.
 */
export async function kept(victim: Victim, rest: Vitals, renew: () => void): Promise<string | null> {
  const isBack = (now: Vitals) =>
    now.descriptors <= rest.descriptors + SPARE_SOCKETS &&
    now.sockets <= rest.sockets + SPARE_SOCKETS &&
    now.timers <= rest.timers &&
    now.resident_bytes <= rest.resident_bytes + SPARE_BYTES
  let last = await look(victim)
  for (let looks = 1; looks < BACK_LOOKS && !isBack(last); looks++) {
    if (looks === LATE_LOOKS) renew()
    await Bun.sleep(LOOK_MS)
    last = await look(victim)
  }
  return isBack(last) ? null : `${Bun.inspect(last)} instead of ${Bun.inspect(rest)}`
}

async function look({ gateway }: Victim): Promise<Vitals> {
  const from = gateway.printed.length
  gateway.signal("SIGUSR2")
  await gateway.prints("timers set: ", from)
  const [, timers] = /timers set: (\d+)/.exec(gateway.printed.slice(from)) ?? []
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${gateway.pid}/status`, "utf8")) ?? []
  const open = descriptors(gateway.pid)
  return {
    descriptors: open.length,
    sockets: open.filter((target) => target.startsWith("socket:")).length,
    timers: Number(timers),
    resident_bytes: Number(kilobytes) * 1024,
  }
}

function descriptors(pid: number): string[] {
  const folder = `/proc/${pid}/fd`
  return readdirSync(folder).flatMap((name) => {
    try {
      return [readlinkSync(join(folder, name))]
    } catch {
      // It was closed since.
      return []
    }
  })
}
