import { startEmbedded } from "../../src/embedded/embedded.ts"

/** The embedded database of a gateway and nothing else: starts it, prints the result, and stops it on SIGTERM. */
const [data_dir = ""] = process.argv.slice(2)
try {
  const embedded = await startEmbedded({
    data_dir,
    log: { info() {}, warn: console.error, error: console.error },
  })
  setInterval(() => {}, 60_000)
  process.on("SIGTERM", () => void embedded.stop().then(() => process.exit(0)))
  console.log(JSON.stringify({ address: embedded.address, adopted: embedded.adopted }))
} catch (error) {
  console.log(JSON.stringify({ refusal: error instanceof Error ? error.message : String(error) }))
  process.exit(1)
}
