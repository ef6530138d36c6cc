/** A field, with quotes or without, and what ends it. */
const FIELD = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/gy

/** The rows of a CSV file by the names of its first row (RFC 4180). Null if it is none, or a row has another number of fields. */
export function csvRows(text: string): readonly ReadonlyMap<string, string>[] | null {
  const rows: string[][] = []
  let row: string[] = []
  FIELD.lastIndex = 0
  const body = text.replace(/^\uFEFF/, "").replace(/\r?\n$/, "")
  for (;;) {
    const found = FIELD.exec(body)
    if (found === null) return null
    const [, quoted, plain = "", end] = found
    row.push(quoted?.replaceAll('""', '"') ?? plain)
    if (end === ",") continue
    rows.push(row)
    row = []
    if (end === "") break
  }
  const [names = [], ...records] = rows
  if (records.some(({ length }) => length !== names.length)) return null
  return records.map((fields) => new Map(fields.map((field, at) => [names[at] ?? "", field])))
}
