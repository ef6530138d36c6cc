/** The arguments of a command, by name. */
export interface Given<Name extends string> {
  /** Null if the argument was not given. */
  text(name: Name): string | null
  /** The value of a required argument. */
  word(name: Name): string
  has(name: Name): boolean
}

/** Wraps the values that citty parsed, whose types claim that a missing argument is a string. */
export function given<Name extends string>(values: Readonly<Record<string, unknown>>): Given<Name> {
  const text = (name: Name) => {
    const value = values[name]
    return typeof value === "string" ? value : null
  }
  return {
    text,
    word(name) {
      const found = text(name)
      if (found === null) throw new Error(`the command was run without its ${name}`)
      return found
    },
    has: (name) => values[name] === true,
  }
}
