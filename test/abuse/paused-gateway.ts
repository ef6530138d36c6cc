import { startGateway } from "../support/gateway.ts"

/** A gateway in a process of its own, which measures how long its event loop stands still. Its parent tells it when. */

const [, , url = ""] = process.argv
const gateway = await startGateway({ url }, { limits: { body: "21MiB" } })
const { key } = await gateway.account("100000")
let longest_ms = 0
let last_ms = performance.now()
let last_cpu = process.cpuUsage()

/** Time that another process took counts only as far as this one worked meanwhile. */
setInterval(() => {
  const now_ms = performance.now()
  const { user, system } = process.cpuUsage(last_cpu)
  longest_ms = Math.max(longest_ms, Math.min(now_ms - last_ms, (user + system) / 1_000))
  last_ms = now_ms
  last_cpu = process.cpuUsage()
}, 1)

process.on("message", async (message) => {
  if (message === "stop") {
    await gateway.stop()
    process.exit(0)
  }
  process.send?.({ longest_ms })
  longest_ms = 0
})
process.send?.({ url: gateway.url, key })
