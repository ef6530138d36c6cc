#!/usr/bin/env bun
import { runProgram } from "./program.ts"
import { surroundings } from "./screen.ts"

/** `tollgate`: this process reads a command line and does what it says. */

// Whoever reads may stop reading, as `head` does; then there is nobody to tell.
process.stdout.on("error", () => process.exit(0))

try {
  process.exitCode = await runProgram(process.argv.slice(2), surroundings())
} catch (error) {
  console.error(`tollgate: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}
