import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Pair {
  readonly cert: string
  readonly key: string
}

/**
 * An authority, and what it vouches for: a server by the name `localhost` and an address, the same until yesterday, all names
 * one label below `provider.test`, and a client.
 */
export interface Certificates {
  readonly ca: Pair
  readonly server: Pair
  readonly expired: Pair
  readonly wildcard: Pair
  readonly client: Pair
}

export async function certificates(address = "127.0.0.1"): Promise<Certificates> {
  const folder = await mkdtemp(join(tmpdir(), "certificates-"))
  const openssl = async (...args: string[]) => {
    const run = Bun.spawn(["openssl", ...args], { cwd: folder, stdout: "ignore", stderr: "pipe" })
    if ((await run.exited) !== 0) throw new Error(await new Response(run.stderr).text())
  }
  const NEW = [..."req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split(" ")]
  const make = async (name: string, subject: string, ...more: string[]): Promise<Pair> => {
    await openssl(...NEW, "-keyout", `${name}.key`, "-out", `${name}.pem`, "-subj", `/CN=${subject}`, ...more)
    const read = (ending: string) => Bun.file(join(folder, `${name}.${ending}`)).text()
    return { cert: await read("pem"), key: await read("key") }
  }
  try {
    const ca = await make("ca", "authority")
    const by_ca = ["-CA", "ca.pem", "-CAkey", "ca.key"]
    const leaf = (name: string, subject: string, names: string) => {
      const extensions = [`subjectAltName=${names}`, "basicConstraints=CA:FALSE"]
      return make(name, subject, ...by_ca, ...extensions.flatMap((extension) => ["-addext", extension]))
    }
    const [server, wildcard, client] = await Promise.all([
      leaf("server", "server", `DNS:localhost,IP:${address}`),
      leaf("wildcard", "server", "DNS:*.provider.test"),
      leaf("client", "gateway", "DNS:gateway.test"),
    ])
    // Only `x509` makes a certificate that has ended.
    const request = ["-key", "server.key", "-subj", "/CN=server", "-addext", "subjectAltName=DNS:localhost"]
    await openssl("req", "-new", ...request, "-out", "expired.csr")
    const ended = ["-days", "-1", "-set_serial", "2", "-copy_extensions", "copy"]
    await openssl("x509", "-req", "-in", "expired.csr", ...by_ca, ...ended, "-out", "expired.pem")
    const expired = { cert: await Bun.file(join(folder, "expired.pem")).text(), key: server.key }
    return { ca, server, expired, wildcard, client }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
