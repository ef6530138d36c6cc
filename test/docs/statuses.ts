import { join } from "node:path"
import { type Document, entriesOf } from "./reference.ts"

export const STATUSES = join(import.meta.dir, "../fixtures/statuses.json")

/** The text of `test/fixtures/statuses.json`: what test/support/documented.ts compares the answers of all tests with. */
export function statusesOf(document: Document): string {
  const lines = entriesOf(document).map(({ name, operation }) => {
    return `  "${name}": "${Object.keys(operation.responses).join(" ")}"`
  })
  return `{\n${lines.sort().join(",\n")}\n}\n`
}
