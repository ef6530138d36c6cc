import { type Address, connect } from "../../src/ledger/database/address.ts"

/** How test/run.ts tells the tests where its cluster is. */
export const CLUSTER_VARIABLE = "TOLLGATE_TEST_CLUSTER"

export interface FreshDatabase {
  readonly address: Address
  drop(): Promise<void>
}

/** A new, empty database of the test run's cluster, one for each test file. */
export async function freshDatabase(): Promise<FreshDatabase> {
  const socket_path = process.env[CLUSTER_VARIABLE]
  if (socket_path === undefined) {
    throw new Error("this test needs the cluster of the test run: use `bun run test <files>`")
  }
  const user = "tollgate"
  const name = `test_${crypto.randomUUID().replaceAll("-", "")}`
  const command = async (text: string) => {
    const client = connect({ socket_path, user, database: "tollgate" }, { max: 1, onnotice: () => {} })
    await client.unsafe(text).finally(() => client.end())
  }
  await command(`create database ${name}`)
  return {
    address: { socket_path, user, database: name },
    drop: () => command(`drop database if exists ${name} with (force)`),
  }
}
