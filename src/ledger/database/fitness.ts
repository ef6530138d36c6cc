import { type Address, askAlone, USUAL_SCHEMA } from "./address.ts"

/** Why a database cannot have the ledger, and how to correct it. */
type Unfit = readonly [found: string, fix: string]

/** The schema of the migrations that were applied, where the ledger has its usual schema. */
const MIGRATIONS_SCHEMA = "drizzle"

interface Facts {
  readonly is_standby: boolean
  readonly is_read_only: boolean
  readonly encoding: string
  readonly role: string
  readonly database: string
  readonly may_create: boolean
  /** The schemas of the ledger that are there, and those among them in which the role may create tables. */
  readonly schemas: readonly string[]
  readonly open: readonly string[]
}

/** Null if this role can create and write the ledger's tables there. Rejects with the driver's error if it cannot be reached. */
export async function readUnfit(address: Address): Promise<Unfit | null> {
  const { schema = USUAL_SCHEMA } = address
  const wanted = schema === USUAL_SCHEMA ? [schema, MIGRATIONS_SCHEMA] : [schema]
  const [facts] = await askAlone(address, (client) => client.unsafe<Facts[]>(factsOf(wanted)))
  return facts === undefined ? null : unfit(facts, wanted)
}

/** In one text, because a pooler may not keep prepared statements. */
function factsOf(wanted: readonly string[]): string {
  const there = `FROM pg_namespace WHERE nspname IN (${wanted.map((name) => `'${name}'`).join(", ")})`
  return `SELECT pg_is_in_recovery() AS is_standby, current_setting('transaction_read_only')::bool AS is_read_only,
    current_setting('server_encoding') AS encoding, current_user::text AS role, current_database()::text AS database,
    has_database_privilege(current_database(), 'CREATE') AS may_create,
    (SELECT coalesce(json_agg(nspname), '[]') ${there}) AS schemas,
    (SELECT coalesce(json_agg(nspname), '[]') ${there} AND has_schema_privilege(oid, 'CREATE')) AS open`
}

function unfit(facts: Facts, wanted: readonly string[]): Unfit | null {
  const { role, database, encoding, schemas, open } = facts
  if (facts.is_standby)
    return [
      "it is a standby, which takes no writes",
      "Name the primary, or all servers and target_session_attrs=primary.",
    ]
  if (facts.is_read_only)
    return [
      `it is read-only for the role ${role}`,
      `Allow writes: ALTER ROLE ${role} RESET default_transaction_read_only.`,
    ]
  if (encoding !== "UTF8")
    return [
      `its encoding is ${encoding}, which cannot keep every name`,
      "Create a database with ENCODING 'UTF8' TEMPLATE template0.",
    ]
  const missing = wanted.filter((name) => !schemas.includes(name))
  if (missing.length > 0 && !facts.may_create) {
    const made = missing.map((name) => `CREATE SCHEMA ${name} AUTHORIZATION ${role};`).join(" ")
    return [
      `the role ${role} may not create the schema ${missing.join(" and ")}`,
      `As an administrator: GRANT CREATE ON DATABASE ${database} TO ${role}; or ${made}`,
    ]
  }
  const closed = wanted.filter((name) => schemas.includes(name) && !open.includes(name))
  if (closed.length === 0) return null
  return [
    `the role ${role} may not create tables in the schema ${closed.join(" and ")}`,
    `As an administrator: ${closed.map((name) => `ALTER SCHEMA ${name} OWNER TO ${role};`).join(" ")}`,
  ]
}
