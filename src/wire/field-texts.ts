/**
 * The fields of a parsed JSON object as JSON text, each written once, however often it is needed: a request is measured
 * for its hold (D12) and then sent (D18), and its messages can be a megabyte.
 */
export class FieldTexts {
  readonly #texts = new Map<string, string>()

  constructor(object: object) {
    for (const [field, value] of Object.entries(object)) this.#texts.set(field, JSON.stringify(value))
  }

  /** The text of a field's value; undefined for a field that the object does not have. */
  of(field: string): string | undefined {
    return this.#texts.get(field)
  }

  entries(): Iterable<readonly [string, string]> {
    return this.#texts
  }

  /** The whole object's text; `changes` replace fields, or follow them. */
  with(changes: Readonly<Record<string, unknown>>): string {
    const texts = new Map(this.#texts)
    for (const [field, value] of Object.entries(changes)) texts.set(field, JSON.stringify(value))
    const fields = Array.from(texts, ([field, text]) => `${JSON.stringify(field)}:${text}`)
    return `{${fields.join(",")}}`
  }
}
