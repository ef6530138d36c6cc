import { Elysia } from "elysia"
import { defaultMemoryBytes, Memory } from "../admission/memory.ts"
import { loadConfig } from "../config/load.ts"
import { findEmbedded } from "../embedded/embedded.ts"
import { errorResponse, GatewayError } from "../errors.ts"
import { nextId } from "../id.ts"
import { findUnheld } from "../ledger/archive/violations.ts"
import type { Address } from "../ledger/database/address.ts"
import { connectDatabase, databaseReason } from "../ledger/database/database.ts"
import { readVersion } from "../ledger/database/migration.ts"
import type { Db } from "../ledger/database/statement.ts"
import { operatorLedger } from "../ledger/operators.ts"
import { Spool } from "../ledger/queue/spool.ts"
import { allOrNone, dataDirOf, MAIN, type ShardAddress, type ShardDatabase } from "../ledger/shards.ts"
import { adminRoutes } from "../routes/admin/admin.ts"
import { endRefused } from "../routes/admin/change-log.ts"
import { faultOf, ROUTING } from "../routes/routing.ts"
import { oneOrMore } from "../wire/list.ts"
import type { Send } from "./admin-client.ts"
import { CliError } from "./cli-error.ts"
import type { Target } from "./target.ts"

const DEADLINE_MS = 10_000
/** The `/admin` routes in this process, directly over the database. Running gateways see the changes (D26). */
export async function openDirectDatabase(target: Direct) {
  const shards = await openAll(target)
  // The defaults of an empty configuration.
  const { limits } = loadConfig("{}", { env: {}, readFile: () => "" })
  const token = crypto.randomUUID()
  const operated = ({ name, open, database: { operators } }: ShardDatabase) => ({
    name,
    open,
    database: operators,
    unheld: () => unheldIn(dataDirOf(target.data_dir, name), operators),
  })
  const app = new Elysia({ name: "direct-database", ...ROUTING })
    .onError(async ({ error, code, request }) => {
      const fault = code === "NOT_FOUND" ? new GatewayError("not_found") : faultOf(error)
      await endRefused(request, fault.status)
      return errorResponse(fault, nextId())
    })
    .use(
      adminRoutes({
        admin_token: token,
        actor: "database",
        ledger: operatorLedger(oneOrMore(shards.map(operated)), {
          deadline_ms: DEADLINE_MS,
          sums_deadline_ms: DEADLINE_MS,
          audit_deadline_ms: DEADLINE_MS,
        }),
        limits,
        memory: new Memory(defaultMemoryBytes(1)),
        models: null,
        upstreams: async () => [],
      }),
    )
  const send: Send = async (request) => app.handle(request)
  const close = async () => void (await Promise.all(shards.map(({ database }) => database.close())))
  return { base: "http://database", token, send, close }
}

type Direct = Exclude<Target, { kind: "gateway" }>

/** Opens every database of the target; if one cannot be used, none stays open. */
async function openAll(target: Direct): Promise<ShardDatabase[]> {
  const addresses = await addressesOf(target)
  return allOrNone(
    addresses.map(async ({ name, open, address }) => {
      const what = addresses.length === 1 ? "the database" : `the database of shard ${name}`
      await requireVersion(address, what)
      return { name, open, database: await connectDatabase(address) }
    }),
    ({ database }) => database.close(),
  )
}

/** The settlements in a data directory's spool for calls that the ledger does not know. */
async function unheldIn(data_dir: string, database: Db) {
  const files = await new Spool(data_dir, nextId(), SILENT).others()
  return findUnheld(
    database,
    files.flatMap(({ ends }) => ends),
  )
}

const SILENT = { info: () => {}, warn: () => {}, error: () => {} }

async function addressesOf(target: Direct): Promise<readonly ShardAddress[]> {
  const only = (address: Address) => [{ name: MAIN, open: true, address }]
  if (target.kind === "shards") return target.shards
  if (target.kind === "database") return only({ url: target.url })
  const address = await findEmbedded(target.data_dir)
  if (address !== null) return only(address)
  throw new CliError(
    `the embedded database of ${target.data_dir} is not running, because no gateway runs there: start one with "tollgate serve", or set DATABASE_URL to use another database`,
  )
}

/** Only the gateway migrates the tables, so a command line of another version must not use them. */
async function requireVersion(address: Address, what: string): Promise<void> {
  const version = await readVersion(address).catch((error: unknown) => {
    throw new CliError(`cannot use ${what}: ${databaseReason(error)}`)
  })
  if (version === "same") return
  throw new CliError(`${what} ${VERSIONS[version]}`)
}

const VERSIONS = {
  none: 'has no Tollgate tables yet: "tollgate serve" creates them at its first start',
  older: 'has the tables of an older Tollgate version: "tollgate serve" of this version migrates them',
  newer: "has the tables of a newer Tollgate version: use that version",
} as const
