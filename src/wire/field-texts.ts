/** A name that stands for itself between quotes. */
const PLAIN_NAME = /^\w+$/

/**
 * The fields of a parsed JSON object as JSON text, each written once, however often it is needed: a request is measured
 * for its hold (D12) and then sent (D18), and its messages can be a megabyte.
 */
export class FieldTexts {
  readonly names: readonly string[]
  readonly #texts: readonly string[]

  constructor(object: object) {
    const names: string[] = []
    const texts: string[] = []
    for (const [name, value] of Object.entries(object)) {
      names.push(name)
      texts.push(JSON.stringify(value))
    }
    this.names = names
    this.#texts = texts
  }

  /** The text of a field's value; undefined for a field that the object does not have. */
  of(name: string): string | undefined {
    return this.#texts[this.names.indexOf(name)]
  }

  /** The text of the field whose name is the one at `place`. */
  at(place: number): string {
    return this.#texts[place] ?? ""
  }

  /** The whole object's text; `changes` replace fields, or follow them. */
  with(changes: Readonly<Record<string, unknown>>): string {
    let text = "{"
    for (const [place, name] of this.names.entries()) {
      const value = Object.hasOwn(changes, name) ? JSON.stringify(changes[name]) : this.at(place)
      text += `${text.length > 1 ? "," : ""}${quoted(name)}:${value}`
    }
    for (const name of Object.keys(changes)) {
      if (this.names.includes(name)) continue
      text += `${text.length > 1 ? "," : ""}${quoted(name)}:${JSON.stringify(changes[name])}`
    }
    return `${text}}`
  }
}

function quoted(name: string): string {
  return PLAIN_NAME.test(name) ? `"${name}"` : JSON.stringify(name)
}
