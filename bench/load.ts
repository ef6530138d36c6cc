import { Client, type ClientListener, HOST, type Request } from "./client.ts"
import type { Arrival, Job, Report } from "./job.ts"
import { type CpuTimes, cpuTimes, residentBytes, spent } from "./process-status.ts"
import { type Outcome, Tally } from "./tally.ts"

type Of<Kind extends Arrival["kind"]> = Extract<Arrival, { kind: Kind }>

/** Runs one job and returns its report. The load generator's process does nothing else. */
export async function load(job: Job): Promise<Report> {
  const before_bytes = residentBytes(job.pid)
  const run = new LoadRun(job)
  await run.run()
  const { cpu_ms, resident_bytes } = run.used
  return { ...run.tally.report(), cpu_ms, grown_bytes: resident_bytes - before_bytes }
}

class LoadRun implements ClientListener {
  readonly tally = new Tally()
  /** What was used within the measured time. */
  used: { readonly cpu_ms: CpuTimes; readonly resident_bytes: number }
  readonly #job: Job
  readonly #request: Request
  readonly #clients: Client[] = []
  #before: CpuTimes
  /** Calls that run, or wait after a failure. */
  #running = 0
  #open_streams = 0
  /** What a client does when its call has ended. */
  #next: (client: Client, now_ms: number) => void = () => {}
  readonly #all_open = Promise.withResolvers<void>()
  readonly #one_ended = Promise.withResolvers<void>()
  #all_ended = Promise.withResolvers<void>()

  constructor(job: Job) {
    this.#job = job
    this.#request = { bytes: requestBytes(job), stream: job.stream }
    this.#before = cpuTimes(job)
    this.used = { cpu_ms: this.#before, resident_bytes: 0 }
  }

  async run(): Promise<void> {
    const { arrival } = this.#job
    try {
      switch (arrival.kind) {
        case "closed":
          await this.#closed(arrival)
          break
        case "calls":
          await this.#calls(arrival)
          break
        case "held":
          await this.#held(arrival)
      }
    } finally {
      for (const client of this.#clients) client.close()
    }
  }

  onEvents(count: number, gap_ms: number | null, now_ms: number): void {
    this.tally.noteEvents(count, gap_ms, now_ms)
    if (gap_ms === null) this.#noteOpened()
  }

  onEnd(client: Client, outcome: Outcome): void {
    this.tally.noteCall(outcome)
    // Without a pause, a target that refuses everything would cause a flood of connections.
    if (outcome.failure === null) this.#end(client, outcome.end_ms)
    else setTimeout(() => this.#end(client, performance.now()), FAILURE_PAUSE_MS)
  }

  async #closed({ connections, duration_ms }: Of<"closed">): Promise<void> {
    const from_ms = wholeNow() + this.#job.warm_ms
    const until_ms = from_ms + duration_ms
    this.tally.measure(from_ms, until_ms)
    this.#next = (client, now_ms) => {
      if (now_ms < until_ms) this.#call(client, now_ms)
    }
    const measured = this.#measure(from_ms, until_ms)
    this.#begin(connections)
    await Promise.all([measured, this.#all_ended.promise])
  }

  /** Calls that are not counted: the targets and the memory that they use become warm. */
  async #warm(connections: number): Promise<void> {
    const until_ms = performance.now() + this.#job.warm_ms
    this.#next = (client, now_ms) => {
      if (now_ms < until_ms) this.#call(client, now_ms)
    }
    this.#begin(connections)
    await this.#all_ended.promise
    this.#all_ended = Promise.withResolvers<void>()
  }

  async #calls({ connections, calls }: Of<"calls">): Promise<void> {
    await this.#warm(connections)
    let left = calls
    this.#next = (client, now_ms) => {
      if (left-- > 0) this.#call(client, now_ms)
    }
    this.tally.measure(performance.now())
    this.#startCpu()
    this.#begin(connections)
    await this.#all_ended.promise
    this.tally.stop(performance.now())
    this.#stopCpu()
  }

  /** Opens all streams at a limited rate, measures while all of them run, and waits for their end. */
  async #held({ connections, opened_per_second, window_ms }: Of<"held">): Promise<void> {
    this.#next = () => this.#one_ended.resolve()
    const start_ms = performance.now()
    // Counts one more, so that the run does not end before all have started.
    this.#running += 1
    for (let number = 0; number < connections; number++) {
      await sleepUntil(start_ms + (number * 1000) / opened_per_second)
      this.#call(this.#make(), performance.now())
    }
    this.#settle()
    await Promise.race([this.#all_open.promise, this.#one_ended.promise])
    this.tally.measure(performance.now())
    this.#startCpu()
    await Promise.race([Bun.sleep(window_ms), this.#one_ended.promise])
    this.tally.stop(performance.now())
    this.#stopCpu()
    await this.#all_ended.promise
  }

  #begin(connections: number): void {
    // Counts one more while clients start, so that the run does not end before all have started.
    this.#running += connections + 1
    for (let number = 0; number < connections; number++) this.#end(this.#make(), performance.now())
    this.#settle()
  }

  #call(client: Client, start_ms: number): void {
    this.#running += 1
    client.call(this.#request, start_ms)
  }

  #end(client: Client, now_ms: number): void {
    this.#next(client, now_ms)
    this.#settle()
  }

  #settle(): void {
    this.#running -= 1
    if (this.#running === 0) this.#all_ended.resolve()
  }

  #make(): Client {
    const client = new Client(this.#job.port, this)
    this.#clients.push(client)
    return client
  }

  #noteOpened(): void {
    const { arrival } = this.#job
    if (arrival.kind === "held" && ++this.#open_streams === arrival.connections) this.#all_open.resolve()
  }

  async #measure(from_ms: number, until_ms: number): Promise<void> {
    await sleepUntil(from_ms)
    this.#startCpu()
    await sleepUntil(until_ms)
    this.#stopCpu()
  }

  #startCpu(): void {
    this.#before = cpuTimes(this.#job)
  }

  #stopCpu(): void {
    this.used = {
      cpu_ms: spent(this.#before, cpuTimes(this.#job)),
      resident_bytes: residentBytes(this.#job.pid),
    }
  }
}

const FAILURE_PAUSE_MS = 20

/** A start in whole milliseconds: with a fraction, start + duration - start may differ from the duration by rounding. */
function wholeNow(): number {
  return Math.ceil(performance.now())
}

/** Late by up to a millisecond, which latencies include: a timer for a part of one fires at once, and to repeat it burns CPU. */
async function sleepUntil(moment_ms: number): Promise<void> {
  const wait_ms = moment_ms - performance.now()
  if (wait_ms > 0) await Bun.sleep(Math.ceil(wait_ms))
}

function requestBytes({ port, path, headers, body }: Job): Buffer {
  const fields = {
    host: `${HOST}:${port}`,
    "content-type": "application/json",
    accept: "*/*",
    "accept-encoding": "identity",
    ...headers,
    "content-length": String(Buffer.byteLength(body)),
  }
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`POST ${path} HTTP/1.1\r\n${head.join("")}\r\n${body}`)
}
