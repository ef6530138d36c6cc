import { expect } from "bun:test"
import type { GatewayProcess, Variables } from "../process/gateway-process.ts"
import { databaseVariables, Workplace } from "../process/workplace.ts"
import { within } from "../support/fair-clock.ts"
import { type ConfigChanges, configFor, startGateway, type TestGateway, until } from "../support/gateway.ts"
import { Link } from "../support/link.ts"
import { type Provider, startProvider } from "../support/provider.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { fault, Witness } from "./witness.ts"

/** Short, so that a test need not wait for a death; long enough for a busy machine. */
export const LEASE = { renew: "300ms", expire: "1500ms" }
const EXPIRE_MS = 1_500
/** How long after its lease a dead gateway's calls may stay open: a sweep comes with each renewal. */
const SWEEP_MS = 3_000

/** Of a configuration, given where its provider is. */
type ChangesFor = (provider_url: string) => ConfigChanges

/** A gateway that faults happen to: a process of its own, its connections to the database and to the provider in our hands. */
export class Victim {
  readonly place = new Workplace()
  readonly database: DatabaseProxy
  readonly upstream: Link
  /** Of its environment, besides the address of the database. */
  readonly #variables: Variables
  #gateway: GatewayProcess | null = null
  #printed = ""

  constructor(database: DatabaseProxy, upstream: Link, changesFor: ChangesFor, variables: Variables) {
    this.database = database
    this.upstream = upstream
    this.#variables = variables
    this.place.configure(configFor(upstream.url, { lease: LEASE, ...changesFor(upstream.url) }))
  }

  get gateway(): GatewayProcess {
    if (this.#gateway === null) throw new Error("this gateway was not started")
    return this.#gateway
  }

  get url(): string {
    return this.gateway.url
  }

  /** Where it listens, or null while it does not. */
  get listening(): string | null {
    return this.#gateway?.printed.includes("tollgate listening on ") ? this.url : null
  }

  /** All that it and those before it printed. */
  get everPrinted(): string {
    const now = this.#gateway
    return now === null ? this.#printed : this.#printed + now.printed + now.complaint
  }

  /** It is starting. */
  spawn(): void {
    this.#gateway = this.place.spawn({ ...databaseVariables(this.database.address), ...this.#variables })
  }

  async start(): Promise<void> {
    this.#gateway = await this.place.start({
      ...databaseVariables(this.database.address),
      ...this.#variables,
    })
  }

  /** Resolves when the process is gone. */
  async kill(): Promise<void> {
    await this.gateway.kill()
    this.#note()
  }

  /** Like an operator: a drain, and its exit code. */
  async stop(): Promise<number | NodeJS.Signals> {
    this.gateway.signal("SIGTERM")
    const code = await this.gateway.exited
    this.#note()
    return code
  }

  async clear(): Promise<void> {
    if (this.#gateway !== null) await this.kill()
    await this.place.clear()
    await Promise.all([this.database.stop(), this.upstream.stop()])
  }

  #note(): void {
    this.#printed += this.gateway.printed + this.gateway.complaint
    this.#gateway = null
  }
}

/** One ledger, with a gateway in this process to which nothing happens, and any number to which something does. */
export class Scene {
  readonly provider: Provider
  /** Sweeps, and answers the operator. */
  readonly steady: TestGateway
  readonly witness: Witness
  readonly victims: Victim[] = []

  private constructor(provider: Provider, steady: TestGateway, witness: Witness) {
    this.provider = provider
    this.steady = steady
    this.witness = witness
  }

  static async open(): Promise<Scene> {
    const provider = await startProvider()
    const steady = await startGateway(provider, { lease: LEASE })
    return new Scene(provider, steady, await Witness.of(steady.address))
  }

  /** A gateway that runs; `role` is its role in the database, if it is not the owner's. */
  async victim(
    changesFor: ChangesFor = () => ({}),
    role: string | null = null,
    variables: Variables = {},
  ): Promise<Victim> {
    const database = await DatabaseProxy.start(this.steady.address)
    if (role !== null) database.as(role)
    const upstream = await Link.to({ host: "127.0.0.1", port: this.provider.port })
    const victim = new Victim(database, upstream, changesFor, variables)
    this.victims.push(victim)
    await victim.start()
    return victim
  }

  /** Nothing is open any more, at the latest a lease and a sweep from now. */
  async quiet(): Promise<void> {
    const quiet = until(this.steady.audit, ({ open_holds }) => open_holds === 0)
    expect(await within(EXPIRE_MS + SWEEP_MS, quiet)).toBe(true)
  }

  /** Ends everything, and fails unless the ledger is exact and every call in it had one of the lives it may have. */
  async close(): Promise<void> {
    try {
      for (const victim of this.victims) await victim.clear()
      expect(await this.steady.audit()).toMatchObject({ open_holds: 0, violations: [] })
      expect((await this.witness.stories()).map(fault).filter((found) => found !== null)).toEqual([])
      expect(await this.witness.overdrawn()).toEqual([])
    } finally {
      await this.witness.end()
      await this.steady.stop()
      await this.provider.stop()
    }
  }
}
