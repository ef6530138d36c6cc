#!/usr/bin/env bun
import { reasonOf } from "./cli-error.ts"
import { runProgram } from "./program.ts"
import { processRuntime } from "./screen.ts"

// A reader such as `head` may stop early. The exit code must still be right, so a closed pipe is ignored. Any other write
// error, such as a full disk, loses output and ends the process.
process.stdout.on("error", (error) => {
  if (!("code" in error) || error.code !== "EPIPE") process.exit(1)
})

// The admin token for a local gateway must not be sent to a proxy.
for (const name of ["NO_PROXY", "no_proxy"]) {
  process.env[name] = [process.env[name] ?? [], "127.0.0.1,localhost,::1,[::1]"].flat().join(",")
}

try {
  process.exitCode = await runProgram(process.argv.slice(2), processRuntime())
} catch (error) {
  console.error(`tollgate: ${reasonOf(error)}`)
  process.exitCode = 1
}
