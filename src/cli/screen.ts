import { type Paint, painter } from "../paint.ts"

/** Where a command prints: a terminal, or a file or pipe that some program reads. */
export interface Screen {
  /** Columns of a terminal; null where nobody looks. */
  readonly width: number | null
  readonly paint: Paint
  /** The answer, on standard output. */
  print(text: string): void
  /** What is said besides it, on standard error. */
  remark(text: string): void
  /** Why the command ends without success, on standard error. */
  printError(sentence: string): void
}

/** Printed as it is, a control character would be obeyed, and one that turns the direction of writing would lie. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, "\ufffd")
}

/** What a command has around it: where it prints, and the variables of its environment. */
export interface Runtime extends Screen {
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Those of this process. */
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
