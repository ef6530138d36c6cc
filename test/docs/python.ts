import { spawnSync } from "node:child_process"

/** True if `python3` is here and has the package. */
export function pythonHas(name: string): boolean {
  return spawnSync("python3", ["-c", `import ${name}`]).status === 0
}

export function packageOf(program: string): string {
  return /^from (\w+) import/m.exec(program)?.[1] ?? "none"
}

/** What the compiler of `python3` complains about; null where there is none. */
export function pythonComplaint(program: string): string | null {
  if (Bun.which("python3") === null) return null
  const compile = "import sys; compile(sys.stdin.read(), 'program', 'exec')"
  const { status, stderr } = spawnSync("python3", ["-c", compile], { input: program, encoding: "utf8" })
  return status === 0 ? null : stderr
}
