import { afterAll } from "bun:test"
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
