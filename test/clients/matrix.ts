/** A table of the page: a row for each subject, a column for each client. */
export class Matrix {
  readonly #columns: readonly string[]
  readonly #rows: ReadonlyMap<string, Map<string, string>>

  constructor(rows: readonly string[], columns: readonly string[]) {
    this.#columns = columns
    this.#rows = new Map(rows.map((row) => [row, new Map<string, string>()]))
  }

  note(row: string, column: string, text: string): void {
    const cells = this.#rows.get(row)
    if (cells === undefined) throw new Error(`the table has no row ${row}`)
    cells.set(column, text)
  }

  /** As Markdown, without the rulings that rows name. What nobody noted shows as `?`, which the page never says. */
  toString(): string {
    const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`
    return [
      line(["", ...this.#columns]),
      line(["", ...this.#columns].map(() => "---")),
      ...[...this.#rows].map(([row, cells]) =>
        line([
          row.replace(/ \((?:D\d+|rule \d)\)/, ""),
          ...this.#columns.map((column) => cells.get(column) ?? "?"),
        ]),
      ),
    ].join("\n")
  }
}
