import { Client, type Outcome, type Request } from "./client.ts"
import { type Arrival, type Job, type JobReport, PERIOD_MS } from "./job.ts"
import { cpuMs, residentBytes } from "./process-status.ts"
import { Schedule } from "./schedule.ts"
import { Tally } from "./tally.ts"

type Of<Kind extends Arrival["kind"]> = Extract<Arrival, { kind: Kind }>

/** Carries out one job, and tells what it found. The load generator's process does nothing else. */
export async function load(job: Job): Promise<JobReport> {
  const { pid } = job
  const resident_before_bytes = pid === null ? 0 : residentBytes(pid)
  const resident_by_period: number[] = []
  const sampler = setInterval(() => {
    if (pid !== null) resident_by_period.push(residentBytes(pid))
  }, PERIOD_MS)
  const drive = new Drive(job)
  await drive.run().finally(() => clearInterval(sampler))
  const { load_cpu_ms, cpu_ms, resident_bytes } = drive.taken
  const process = { cpu_ms, resident_before_bytes, resident_bytes, resident_by_period }
  return { ...drive.tally.report(), load_cpu_ms, process: pid === null ? null : process }
}

class Drive {
  readonly tally: Tally
  /** What was used while was measured. */
  taken = { load_cpu_ms: 0, cpu_ms: 0, resident_bytes: 0 }
  readonly #job: Job
  readonly #request: Request
  readonly #clients: Client[] = []
  readonly #idle: Client[] = []
  #before = { load_cpu_ms: 0, cpu_ms: 0 }
  #open_streams = 0
  #all_open = Promise.withResolvers<void>()
  #one_ended = Promise.withResolvers<void>()

  constructor(job: Job) {
    this.#job = job
    this.tally = new Tally(job.level)
    this.#request = {
      bytes: requestBytes(job),
      stream: job.stream,
      leave_after: job.leave_after,
    }
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
        case "open":
          await this.#open(arrival)
          break
        case "held":
          await this.#held(arrival)
      }
      if (this.#job.to_the_end) this.tally.stop(performance.now())
    } finally {
      for (const client of this.#clients) client.close()
    }
  }

  async #closed({ connections, duration_ms }: Of<"closed">): Promise<void> {
    const from_ms = performance.now() + this.#job.warm_ms
    const until_ms = from_ms + duration_ms
    this.#plan(from_ms, until_ms)
    await Promise.all([
      this.#measure(from_ms, until_ms),
      ...this.#each(connections, async (client) => {
        while (performance.now() < until_ms) await this.#call(client, performance.now())
      }),
    ])
  }

  async #calls({ connections, calls }: Of<"calls">): Promise<void> {
    let left = calls
    const from_ms = performance.now()
    this.tally.measure(from_ms)
    this.#begin()
    await Promise.all(
      this.#each(connections, async (client) => {
        while (left-- > 0) await this.#call(client, performance.now())
      }),
    )
    this.tally.stop(performance.now())
    this.#end()
  }

  async #open({ per_second, duration_ms }: Of<"open">): Promise<void> {
    const start_ms = performance.now()
    const from_ms = start_ms + this.#job.warm_ms
    const until_ms = from_ms + duration_ms
    this.#plan(from_ms, until_ms)
    const schedule = new Schedule(per_second, start_ms, this.#job.warm_ms + duration_ms)
    const calls: Promise<void>[] = [this.#measure(from_ms, until_ms)]
    for (let next_ms = schedule.next_ms; next_ms !== null; next_ms = schedule.next_ms) {
      await sleepUntil(next_ms)
      for (const due_ms of schedule.due(performance.now())) calls.push(this.#callIdle(due_ms))
    }
    await Promise.all(calls)
  }

  /** Opens all streams at a bearable rate, measures while all of them run, and stays until they end. */
  async #held({ connections, opened_per_second, window_ms }: Of<"held">): Promise<void> {
    const schedule = new Schedule(
      opened_per_second,
      performance.now(),
      (connections * 1000) / opened_per_second,
    )
    const streams: Promise<void>[] = []
    for (let next_ms = schedule.next_ms; next_ms !== null; next_ms = schedule.next_ms) {
      await sleepUntil(next_ms)
      for (const due_ms of schedule.due(performance.now())) {
        const ended = this.#call(this.#make(), due_ms)
        streams.push(ended.then(() => this.#one_ended.resolve()))
      }
    }
    await Promise.race([this.#all_open.promise, this.#one_ended.promise])
    this.tally.measure(performance.now())
    this.#begin()
    await Promise.race([Bun.sleep(window_ms), this.#one_ended.promise])
    this.tally.stop(performance.now())
    this.#end()
    await Promise.all(streams)
  }

  #plan(from_ms: number, until_ms: number): void {
    if (this.#job.to_the_end) this.tally.measure(from_ms)
    else this.tally.measure(from_ms, until_ms)
  }

  #each(connections: number, work: (client: Client) => Promise<void>): Promise<void>[] {
    return Array.from({ length: connections }, () => work(this.#make()))
  }

  async #callIdle(start_ms: number): Promise<void> {
    const client = this.#idle.pop() ?? this.#make()
    await this.#call(client, start_ms)
    this.#idle.push(client)
  }

  async #call(client: Client, start_ms: number): Promise<void> {
    const outcome: Outcome = await client.call(this.#request, start_ms)
    this.tally.noteCall(outcome)
    // A target that refuses everything at once must not turn the load into a storm of connections.
    if (outcome.failure !== null) await Bun.sleep(FAILURE_PAUSE_MS)
  }

  #make(): Client {
    const client = new Client(this.#job.origin, {
      onEvents: (count, gap_ms, now_ms) => {
        this.tally.noteEvents(count, gap_ms, now_ms)
        if (gap_ms === null) this.#noteOpened()
      },
    })
    this.#clients.push(client)
    return client
  }

  #noteOpened(): void {
    const { arrival } = this.#job
    if (arrival.kind === "held" && ++this.#open_streams === arrival.connections) this.#all_open.resolve()
  }

  async #measure(from_ms: number, until_ms: number): Promise<void> {
    await sleepUntil(from_ms)
    this.#begin()
    await sleepUntil(until_ms)
    this.#end()
  }

  #begin(): void {
    this.#before = this.#cpu()
  }

  #end(): void {
    const { load_cpu_ms, cpu_ms } = this.#cpu()
    const { pid } = this.#job
    this.taken = {
      load_cpu_ms: load_cpu_ms - this.#before.load_cpu_ms,
      cpu_ms: cpu_ms - this.#before.cpu_ms,
      resident_bytes: pid === null ? 0 : residentBytes(pid),
    }
  }

  #cpu() {
    const { pid } = this.#job
    return { load_cpu_ms: cpuMs(process.pid), cpu_ms: pid === null ? 0 : cpuMs(pid) }
  }
}

const FAILURE_PAUSE_MS = 20

async function sleepUntil(moment_ms: number): Promise<void> {
  const wait_ms = moment_ms - performance.now()
  if (wait_ms > 0) await Bun.sleep(wait_ms)
}

function requestBytes({ origin, path, headers, body }: Job): Buffer {
  const default_port = origin.tls ? 443 : 80
  const host = origin.port === default_port ? origin.host : `${origin.host}:${origin.port}`
  const fields = {
    host,
    "content-type": "application/json",
    accept: "*/*",
    "accept-encoding": "identity",
    ...headers,
    "content-length": String(Buffer.byteLength(body)),
  }
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`POST ${path} HTTP/1.1\r\n${head.join("")}\r\n${body}`)
}
