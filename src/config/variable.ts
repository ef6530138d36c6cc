import type { Sources } from "./reference.ts"

/** What the environment says of a name. */
export type Variable =
  | { readonly state: "set"; readonly text: string }
  /** `NAME` is unset or empty, and so is `NAME_FILE`. */
  | { readonly state: "unset" }
  /** `NAME_FILE` names no file that is readable and not empty. */
  | { readonly state: "unreadable" }
  /** Which of them counts is not guessed. */
  | { readonly state: "set twice" }

/**
 * The value of a variable that may be a secret: of `NAME`, or what is in the file that `NAME_FILE` names, without the
 * white space around it. An empty variable counts as unset.
 */
export function readVariable(name: string, { env, readFile }: Sources): Variable {
  const text = envOf(name, env)
  const path = envOf(`${name}_FILE`, env)
  if (path === null) return text === null ? { state: "unset" } : { state: "set", text }
  if (text !== null) return { state: "set twice" }
  const content = textOf(path, readFile)
  return content === null ? { state: "unreadable" } : { state: "set", text: content }
}

/** The trimmed text of a file; null when it cannot be read, or is empty. */
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
