import { endLean, endLimited, endOne } from "../../src/ledger/money/end.ts"
import { endExact } from "../../src/ledger/money/end-exact.ts"
import { holdLean, holdLimited, holdOneKey } from "../../src/ledger/money/hold.ts"
import { holdExact } from "../../src/ledger/money/hold-exact.ts"
import { FAIR } from "../support/link.ts"
import type { DatabaseProxy } from "../support/proxy.ts"
import type { Random } from "./random.ts"
import type { Victim } from "./scene.ts"
import { CHECKPOINT } from "./witness.ts"

/** What happens to a gateway; if to its way to a database, to that of one shard. */
export interface Fault {
  readonly name: string
  begin(victim: Victim, random: Random): Promise<void> | void
}

/** Those that a gateway outlives. */
export const PASSING: readonly Fault[] = [
  { name: "the database is gone", begin: oneDatabase((database) => database.refuse()) },
  { name: "the way to the database is cut", begin: oneDatabase((database) => database.cut()) },
  { name: "the database is black-holed", begin: oneDatabase((database) => database.stall()) },
  {
    name: "the database is slow",
    begin: oneDatabase((database, random) => {
      database.weather = { ...FAIR, delay_ms: random.whole(50, 200) }
    }),
  },
  {
    name: "replies of the database are lost",
    begin: oneDatabase((database, random) => {
      const holding = [holdOneKey, holdLean, holdLimited, holdExact]
      const statements = [...holding, endOne, endLean, endLimited, endExact, CHECKPOINT]
      for (const statement of statements) if (random.chance(0.7)) void database.loseReply(statement)
    }),
  },
  {
    name: "the provider's connections are reset",
    begin: ({ upstream }) => upstream.reset(),
  },
  { name: "the provider is black-holed", begin: ({ upstream }) => upstream.stall() },
  {
    name: "the provider drips",
    begin({ upstream }, random) {
      upstream.weather = { delay_ms: 5, bytes_per_s: 20_000, slice_bytes: random.whole(1, 50) }
    },
  },
]

/** Each ends with a kill; until then it is mended by nobody. */
export const FAULTS: readonly [Fault, ...Fault[]] = [
  { name: "nothing else", begin() {} },
  ...PASSING,
  {
    name: "it is frozen past its lease and woken",
    async begin({ gateway }) {
      gateway.signal("SIGSTOP")
      await Bun.sleep(2_500)
      gateway.signal("SIGCONT")
    },
  },
  {
    name: "it crashes in a loop",
    async begin(victim, random) {
      for (let crash = 0; crash < 3; crash++) {
        await victim.kill()
        victim.spawn()
        await Bun.sleep(random.whole(0, 400))
      }
    },
  },
  { name: "it drains", begin: ({ gateway }) => gateway.signal("SIGTERM") },
  {
    name: "it drains while the database is gone",
    begin({ gateway, databases }) {
      for (const database of databases) database.refuse()
      gateway.signal("SIGTERM")
    },
  },
]

export function mend({ databases, upstream }: Victim): void {
  for (const database of databases) {
    database.admit()
    database.heal()
  }
  upstream.heal()
}

function oneDatabase(begin: (database: DatabaseProxy, random: Random) => void): Fault["begin"] {
  return ({ databases }, random) => begin(random.pick(databases), random)
}
