import { expect } from "bun:test"
import { MAIN, type ShardAddress } from "../../src/ledger/shards.ts"
import { type OneOrMore, oneOrMore } from "../../src/wire/list.ts"
import type { GatewayProcess, Variables } from "../process/gateway-process.ts"
import { databaseVariables, Workplace } from "../process/workplace.ts"
import { freshDatabase } from "../support/database.ts"
import { within } from "../support/fair-clock.ts"
import { type ConfigChanges, configFor, startGateway, type TestGateway, untilIs } from "../support/gateway.ts"
import { Link } from "../support/link.ts"
import { type Provider, startProvider } from "../support/provider.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import { Postgres } from "./postgres.ts"
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
  /** The way to each shard, in their order. */
  readonly databases: OneOrMore<DatabaseProxy>
  readonly upstream: Link
  /** Of its environment, besides the address of the only database. */
  readonly #variables: Variables
  #gateway: GatewayProcess | null = null
  #printed = ""

  constructor(
    databases: OneOrMore<DatabaseProxy>,
    upstream: Link,
    changesFor: ChangesFor,
    variables: Variables,
  ) {
    this.databases = databases
    this.upstream = upstream
    this.#variables = variables
    const shards = databases.map(({ address: { url } }, at) => ({ name: shardName(at), url }))
    const listed = shards.length === 1 ? {} : { shards }
    this.place.configure(configFor(upstream.url, { lease: LEASE, ...listed, ...changesFor(upstream.url) }))
  }

  /** The way to the first shard, which is the only one in most scenes. */
  get database(): DatabaseProxy {
    return this.databases[0]
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
    this.#gateway = this.place.spawn(this.#environment())
  }

  async start(): Promise<void> {
    this.#gateway = await this.place.start(this.#environment())
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
    await Promise.all([...this.databases, this.upstream].map((link) => link.stop()))
  }

  #environment(): Variables {
    const found = this.databases.length === 1 ? databaseVariables(this.database.address) : {}
    return { ...found, ...this.#variables }
  }

  #note(): void {
    this.#printed += this.gateway.printed + this.gateway.complaint
    this.#gateway = null
  }
}

export interface SceneShard extends ShardAddress {
  readonly witness: Witness
  /** A server of its own, which can crash; null for a database of the test run's. */
  readonly server: Postgres | null
}

/** An account with a key of it, in the shard at this place. */
export interface SceneAccount {
  readonly id: string
  readonly key: string
  readonly key_id: string
  readonly usd: string
  readonly shard: number
}

/** One ledger, with a gateway in this process to which nothing happens, and any number to which something does. */
export class Scene {
  readonly provider: Provider
  /** Sweeps, and answers the operator. */
  readonly steady: TestGateway
  readonly shards: OneOrMore<SceneShard>
  readonly victims: Victim[] = []
  readonly #removes: readonly (() => Promise<void>)[]

  private constructor(
    provider: Provider,
    steady: TestGateway,
    shards: OneOrMore<SceneShard>,
    removes: readonly (() => Promise<void>)[],
  ) {
    this.provider = provider
    this.steady = steady
    this.shards = shards
    this.#removes = removes
  }

  /** The first shard is a database of the test run's, each other one has a server of its own. */
  static async open(count = 1): Promise<Scene> {
    const provider = await startProvider()
    const places = await Promise.all(Array.from({ length: count }, (_, at) => openPlace(at)))
    const steady = await startGateway(provider, { lease: LEASE }, null, oneOrMore(places))
    const shards = places.map(async (place) => ({ ...place, witness: await Witness.of(place.address) }))
    const removes = places.map(({ remove }) => remove)
    return new Scene(provider, steady, oneOrMore(await Promise.all(shards)), removes)
  }

  /** Of the first shard, which is the only one in most scenes. */
  get witness(): Witness {
    return this.shards[0].witness
  }

  /** A new account in the shard at this place. Accounts choose their shards, so there are empty ones before it (D74). */
  async account(usd: string, shard: number): Promise<SceneAccount> {
    for (;;) {
      const { id, key, key_id } = await this.steady.account("0")
      const { shard: name = MAIN } = await this.steady.admin<{ shard?: string }>("GET", `/accounts/${id}`)
      if (name !== shardName(shard)) continue
      if (usd !== "0") await this.steady.admin("POST", `/accounts/${id}/credits`, { amount: usd })
      return { id, key, key_id, usd, shard }
    }
  }

  /** A gateway that runs. */
  async victim(changesFor: ChangesFor = () => ({}), variables: Variables = {}) {
    const databases = await Promise.all(this.shards.map(({ address }) => DatabaseProxy.start(address)))
    const upstream = await Link.to({ host: "127.0.0.1", port: this.provider.port })
    const victim = new Victim(oneOrMore(databases), upstream, changesFor, variables)
    this.victims.push(victim)
    await victim.start()
    return victim
  }

  /** Nothing is open any more, at the latest a lease and a sweep from now. */
  async quiet(): Promise<void> {
    const quiet = untilIs(this.steady.audit, { open_holds: 0 })
    expect(await within(EXPIRE_MS + SWEEP_MS, quiet)).toBe(true)
  }

  /** Ends everything, and fails unless the ledger is exact and every call in it had one of the lives it may have. */
  async close(): Promise<void> {
    try {
      for (const victim of this.victims) await victim.clear()
      expect(await this.steady.audit()).toMatchObject({ open_holds: 0, violations: [] })
      for (const { witness } of this.shards) {
        expect((await witness.stories()).map(fault).filter((found) => found !== null)).toEqual([])
        expect(await witness.overdrawn()).toEqual([])
      }
    } finally {
      for (const { witness } of this.shards) await witness.end()
      await this.steady.stop()
      for (const remove of this.#removes) await remove()
      await this.provider.stop()
    }
  }
}

function shardName(place: number): string {
  return place === 0 ? MAIN : `shard-${place}`
}

async function openPlace(place: number) {
  const shard = { name: shardName(place), open: true }
  if (place === 0) {
    const { address, drop } = await freshDatabase()
    return { ...shard, address, server: null, remove: drop }
  }
  const server = await Postgres.make()
  await server.start()
  return { ...shard, address: server.address, server, remove: () => server.clear() }
}
