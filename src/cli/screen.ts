import { type Paint, painter } from "../paint.ts"

/** Where a command prints: a terminal, a file or a pipe. */
export interface Screen {
  /** Columns of the terminal; null if it is not a terminal. */
  readonly width: number | null
  readonly paint: Paint
  /** Prints the result to standard output. */
  print(text: string): void
  /** Prints a remark to standard error. */
  remark(text: string): void
  /** Prints the reason of a failure to standard error. */
  printError(sentence: string): void
}

/** Replaces control characters, which a terminal would execute, and bidirectional ones, which would show a false order. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, "\ufffd")
}

/** What a command runs in: where it prints, and its environment variables. */
export interface Runtime extends Screen {
  readonly env: Readonly<Record<string, string | undefined>>
}

/** The runtime of this process. */
export function processRuntime(): Runtime {
  const { stdout, stderr, env } = process
  const aside = painter(stderr.isTTY, env)
  return {
    env,
    width: stdout.isTTY ? stdout.columns || null : null,
    paint: painter(stdout.isTTY, env),
    print: (text) => void stdout.write(`${text}\n`),
    remark: (text) => void stderr.write(`${aside("dim", text)}\n`),
    printError: (sentence) => void stderr.write(`${aside("red", "tollgate:")} ${sentence}\n`),
  }
}
