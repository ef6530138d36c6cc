import { readFileSync } from "node:fs"

/** Preloaded into a gateway: its wall clock is wrong by as many milliseconds as the file says, from SIGUSR2 to SIGUSR2. */

const path = process.env.TOLLGATE_TEST_CLOCK ?? ""
const now = Date.now.bind(Date)
let wrong_ms = 0
Date.now = () => now() + wrong_ms
process.on("SIGUSR2", () => {
  wrong_ms = Number(readFileSync(path, "utf8"))
  console.log(`the clock is wrong by ${wrong_ms} ms`)
})
