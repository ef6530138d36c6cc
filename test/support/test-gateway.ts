import { afterAll } from "bun:test"
import type { ShardAddress } from "../../src/ledger/shards.ts"
import type { OneOrMore } from "../../src/wire/list.ts"
import { freshDatabase } from "./database.ts"
import { type ConfigChanges, endSound, startGateway } from "./gateway.ts"
import { type Script, startProvider } from "./provider.ts"

/** A resource of a test file, closed after its last test. */
export async function ofFile<Resource extends { close(): Promise<unknown> }>(
  opening: Promise<Resource>,
): Promise<Resource> {
  const resource = await opening
  afterAll(() => resource.close())
  return resource
}

/**
 * A gateway of a test file and its provider, which gives `answer` to requests without a script. After the last test the
 * ledger must be sound, without an open call. `changes` may depend on the provider's URL.
 */
export async function testGateway(
  changes: ConfigChanges | ((provider_url: string) => ConfigChanges) = {},
  answer?: Script,
) {
  const provider = await startProvider()
  if (answer !== undefined) provider.reply(answer)
  const given = typeof changes === "function" ? changes(provider.url) : changes
  const gateway = await startGateway(provider, given)
  afterAll(() => endSound(gateway, provider))
  return { provider, gateway }
}

interface Pair {
  /** The provider's answer to requests without a script. */
  readonly answer?: Script
  readonly changes?: ConfigChanges
  /** By default as for the first gateway. */
  readonly other_changes?: ConfigChanges
  /** By default one fresh database. */
  readonly place?: { readonly shards: OneOrMore<ShardAddress>; drop(): Promise<unknown> }
}

/**
 * Two gateways of a test file on the same shards, and their provider. After the last test the ledger must be sound, without
 * an open call; a test may have stopped the first gateway.
 */
export async function testPair({ answer, changes = {}, other_changes = changes, place }: Pair = {}) {
  const provider = await startProvider()
  if (answer !== undefined) provider.reply(answer)
  const { shards, drop } = place ?? (await oneShard())
  const gateway = await startGateway(provider, changes, null, shards)
  const other = await startGateway(provider, other_changes, null, shards)
  afterAll(async () => {
    if (Bun.peek.status(gateway.exited) === "pending") await gateway.stop()
    await endSound(other, provider)
    await drop()
  })
  return { provider, gateway, other, shards }
}

async function oneShard() {
  const { address, drop } = await freshDatabase()
  const shards: OneOrMore<ShardAddress> = [{ name: "main", open: true, address }]
  return { shards, drop }
}
