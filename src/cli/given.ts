/** The arguments of one command, by the names of its definition. */
export interface Given<Name extends string> {
  /** Null when it was not given. */
  text(name: Name): string | null
  /** Of an argument that the command cannot do without. */
  word(name: Name): string
  has(name: Name): boolean
}

/** Reads what citty made of a command line; its types take what was not given for text. */
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
