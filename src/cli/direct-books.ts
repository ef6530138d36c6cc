import { Elysia } from "elysia"
import { reasonOf } from "../books.ts"
import { loadConfig } from "../config/load.ts"
import { findEmbedded } from "../embedded/embedded.ts"
import { errorResponse, GatewayError, toGatewayError } from "../errors.ts"
import { nextId } from "../id.ts"
import type { Address } from "../ledger/database/address.ts"
import { connectDatabase } from "../ledger/database/database.ts"
import { readVersion } from "../ledger/database/version.ts"
import { adminRoutes } from "../routes/admin/admin.ts"
import { Complaint } from "./complaint.ts"
import type { Send } from "./office.ts"
import type { Place } from "./place.ts"

/** How long a query of the books may take. */
const DEADLINE_MS = 10_000
/**
 * The operators' routes of a gateway, served to this process alone over the database itself: no gateway need run, and all
 * that run see the changes, because every request reads the books (D26).
 */
export async function openDirectBooks(place: Exclude<Place, { kind: "gateway" }>) {
  const address = await addressOf(place)
  await requireVersion(address)
  const database = await connectDatabase(address)
  // Of a configuration that says nothing.
  const { limits } = loadConfig("{}", { env: {}, readFile: () => "" })
  const token = crypto.randomUUID()
  const app = new Elysia({ name: "direct-books" })
    .onError(({ error, code }) => {
      const fault = code === "NOT_FOUND" ? new GatewayError("not_found") : toGatewayError(error)
      return errorResponse(fault, nextId())
    })
    .use(
      adminRoutes({
        admin_token: token,
        database: database.operators,
        limits,
        deadline_ms: DEADLINE_MS,
        sums_deadline_ms: DEADLINE_MS,
        audit_deadline_ms: DEADLINE_MS,
        upstreams: async () => [],
      }),
    )
  const send: Send = async (request) => app.handle(request)
  return { base: "http://books", token, send, close: () => database.close() }
}

async function addressOf(place: Exclude<Place, { kind: "gateway" }>): Promise<Address> {
  if (place.kind === "database") return { url: place.url }
  const address = await findEmbedded(place.data_dir)
  if (address !== null) return address
  throw new Complaint(
    `no gateway runs on ${place.data_dir}, so its embedded database does not either: start it by "tollgate serve", or set DATABASE_URL for another one`,
  )
}

/** The tables are the gateway's to change: a command line of another version only looks for trouble. */
async function requireVersion(address: Address): Promise<void> {
  const version = await readVersion(address).catch((error: unknown) => {
    throw new Complaint(`the database cannot be used: ${reasonOf(error)}`)
  })
  if (version === "same") return
  throw new Complaint(VERSIONS[version])
}

const VERSIONS = {
  none: 'the database has no tables of Tollgate yet: the first "tollgate serve" with it makes them',
  older:
    'the tables of the database are of an older Tollgate: the next "tollgate serve" of this version brings them up to date',
  newer: "the tables of the database are of a newer Tollgate: use that version",
} as const
