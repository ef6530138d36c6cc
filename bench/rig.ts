import { Type } from "@sinclair/typebox"
import { Admin } from "./admin.ts"
import { familyOf } from "./answer-spec.ts"
import { checked } from "./checked.ts"
import { Child } from "./child.ts"
import { Port } from "./handlers.ts"
import { type Job, Report } from "./job.ts"
import { type AnswerSpecs, Generated, pathOf } from "./provider.ts"
import { Listening } from "./tollgate.ts"

/** The targets of a scenario: the provider itself, a bare pass-through, and Tollgate. */
export const targets = ["direct", "bare", "tollgate"] as const
export type TargetName = (typeof targets)[number]

export interface Target {
  readonly port: number
  /** The first process; its children are measured with it. */
  readonly pid: number
  /** The first process of each Postgres that it has. */
  readonly postgres_pids: number[]
}

/** `PRICE` as a configuration has it. */
const PRINTED_PRICE = { input: "1", cached_input: "0.1", output: "4" }
const JOB_MS = 600_000

/** All processes of a run: the provider, the load generator, the ledger without a gateway, and the two gateways. */
export class Rig {
  readonly load_process = new Child("load")
  readonly ledger = new Child("ledger")
  readonly #specs: AnswerSpecs
  readonly #admin_token = `bench_${crypto.randomUUID()}`
  readonly #provider = new Child("provider")
  readonly #tollgate = new Child("tollgate")
  readonly #ledgers: Child[] = []
  #bare = new Child("bare")
  #provider_url = ""
  #targets: Readonly<Record<TargetName, Target>> | null = null

  /** With the answers that its provider gives. */
  constructor(specs: AnswerSpecs) {
    this.#specs = specs
  }

  /** Starts all servers; throws when one does not start. */
  async start(): Promise<void> {
    const { port } = await this.#provider.ask(Port, { specs: this.#specs })
    this.#provider_url = `http://127.0.0.1:${port}`
    await this.#startGateways({ port, pid: this.#provider.pid, postgres_pids: [] })
  }

  /** Restarts both gateways, for figures that depend on the history of a process. */
  async restart(): Promise<void> {
    await this.#bare.stop()
    this.#bare = new Child("bare")
    await this.#startGateways(this.target("direct"))
  }

  async restartTollgate(workers: number): Promise<void> {
    const [direct, bare] = [this.target("direct"), this.target("bare")]
    this.#targets = { direct, bare, tollgate: await this.#startTollgate(workers) }
  }

  target(name: TargetName): Target {
    if (this.#targets === null) throw new Error("the targets were not started")
    return this.#targets[name]
  }

  get admin(): Admin {
    return new Admin(`http://127.0.0.1:${this.target("tollgate").port}`, this.#admin_token)
  }

  /** Starts a process with a ledger of its own. */
  startLedger(): Child {
    const child = new Child("ledger")
    this.#ledgers.push(child)
    return child
  }

  /** Ends the processes that `startLedger` started. */
  async stopLedgers(): Promise<void> {
    await Promise.all(this.#ledgers.splice(0).map((child) => child.stop()))
  }

  load(job: Job): Promise<Report> {
    return this.load_process.ask(Report, job, JOB_MS)
  }

  /** What the provider has generated for the gateway since it was last asked. */
  async generated(): Promise<Generated[]> {
    const response = await fetch(`${this.#provider_url}/generated`)
    return checked(Type.Array(Generated), await response.json())
  }

  /** Ends every process, the load generator first. */
  async stop(): Promise<void> {
    await this.load_process.stop()
    await Promise.all([this.#tollgate.stop(), this.ledger.stop(), this.stopLedgers(), this.#bare.stop()])
    await this.#provider.stop()
  }

  async #startGateways(direct: Target): Promise<void> {
    const [bare, tollgate] = await Promise.all([
      this.#bare.ask(Port, { provider_url: this.#provider_url }),
      this.#startTollgate(1),
    ])
    this.#targets = { direct, bare: { port: bare.port, pid: this.#bare.pid, postgres_pids: [] }, tollgate }
  }

  #startTollgate(workers: number): Promise<Listening> {
    return this.#tollgate.ask(Listening, {
      config: JSON.stringify({ ...configFor(this.#provider_url, this.#specs), workers }),
      admin_token: this.#admin_token,
    })
  }
}

/** One upstream and one model per spec, with its name: the model decides which path of the provider the gateway calls. */
export function configFor(provider_url: string, specs: AnswerSpecs): object {
  const entries = Object.entries(specs).map(([name, spec]) => {
    const family = familyOf(spec)
    return { name, family, base: provider_url + pathOf(name) }
  })
  return {
    vendors: ["anthropic"],
    upstreams: Object.fromEntries(
      entries.map(({ name, family, base }) => [
        name,
        { family, base_url: family === "chat" ? `${base}/v1` : base, api_key: "bench" },
      ]),
    ),
    models: entries.map(({ name, family }) => ({
      name,
      family,
      upstreams: [{ use: name }],
      price: PRINTED_PRICE,
      max_output_tokens: 1_000_000,
    })),
    shutdown: { drain: "2s" },
  }
}
