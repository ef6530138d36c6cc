import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

interface Pair {
  readonly cert: string
  readonly key: string
}

/** An authority, and what it vouches for: a server by the name `localhost` and an address, and a client. */
export interface Certificates {
  readonly ca: Pair
  readonly server: Pair
  readonly client: Pair
}

export async function certificates(address = "127.0.0.1"): Promise<Certificates> {
  const folder = await mkdtemp(join(tmpdir(), "certificates-"))
  const openssl = async (...args: string[]) => {
    const run = Bun.spawn(["openssl", ...args], { cwd: folder, stdout: "ignore", stderr: "pipe" })
    if ((await run.exited) !== 0) throw new Error(await new Response(run.stderr).text())
  }
  const NEW = [
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
    "-days",
    "2",
  ]
  const make = async (name: string, subject: string, ...more: string[]): Promise<Pair> => {
    await openssl(...NEW, "-keyout", `${name}.key`, "-out", `${name}.pem`, "-subj", `/CN=${subject}`, ...more)
    const read = (ending: string) => Bun.file(join(folder, `${name}.${ending}`)).text()
    return { cert: await read("pem"), key: await read("key") }
  }
  try {
    const by_ca = ["-CA", "ca.pem", "-CAkey", "ca.key"]
    const ca = await make("ca", "authority")
    const names = `subjectAltName=DNS:localhost,IP:${address}`
    const server = await make(
      "server",
      "server",
      ...by_ca,
      "-addext",
      names,
      "-addext",
      "basicConstraints=CA:FALSE",
    )
    const client = await make("client", "gateway", ...by_ca, "-addext", "basicConstraints=CA:FALSE")
    return { ca, server, client }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
