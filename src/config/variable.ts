import type { Sources } from "./reference.ts"

/** The state of an environment variable. */
export type Variable =
  | { readonly state: "set"; readonly text: string }
  /** `NAME` is unset or empty, and so is `NAME_FILE`. */
  | { readonly state: "unset" }
  /** `NAME_FILE` does not name a readable, non-empty file. */
  | { readonly state: "unreadable" }
  /** Both `NAME` and `NAME_FILE` are set, which is ambiguous. */
  | { readonly state: "set twice" }

/**
 * The value of a variable that can be a secret: `NAME`, or the trimmed content of the file that `NAME_FILE` names. An empty
 * variable counts as unset.
 */
export function readVariable(name: string, { env, readFile }: Sources): Variable {
  const text = envOf(name, env)
  const path = envOf(`${name}_FILE`, env)
  if (path === null) return text === null ? { state: "unset" } : { state: "set", text }
  if (text !== null) return { state: "set twice" }
  const content = textOf(path, readFile)
  return content === null ? { state: "unreadable" } : { state: "set", text: content }
}

/** The trimmed text of a file; null if it is empty or cannot be read. */
export function textOf(path: string, readFile: Sources["readFile"]): string | null {
  try {
    return readFile(path).trim() || null
  } catch {
    return null
  }
}

function envOf(name: string, env: Sources["env"]): string | null {
  return (Object.hasOwn(env, name) && env[name]) || null
}
