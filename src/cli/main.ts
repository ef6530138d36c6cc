#!/usr/bin/env bun
import { runProgram } from "./program.ts"
import { processRuntime } from "./screen.ts"

/** `tollgate`: this process reads a command line and does what it says. */

// Whoever reads may stop reading, as `head` does: then the command still says by its exit code what it found. What could
// not be written for another reason, such as a disk that is full, is lost.
process.stdout.on("error", (error) => {
  if (!("code" in error) || error.code !== "EPIPE") process.exit(1)
})

// A token for this machine goes to no proxy.
for (const name of ["NO_PROXY", "no_proxy"]) {
  process.env[name] = [process.env[name] ?? [], "127.0.0.1,localhost,::1,[::1]"].flat().join(",")
}

try {
  process.exitCode = await runProgram(process.argv.slice(2), processRuntime())
} catch (error) {
  console.error(`tollgate: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}
