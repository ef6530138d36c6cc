import { type Document, isScalar, LineCounter, parseDocument, visit } from "yaml"
import type { Fault } from "../wire/fault.ts"
import { ConfigError } from "./config.ts"

/** Parses YAML. A `ConfigError` has line numbers but no content, except duplicate keys, which are errors. */
export function parseYaml(text: string): unknown {
  const lines = new LineCounter()
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    merge: true,
    uniqueKeys: false,
  })
  const [error] = document.errors
  const faults =
    error === undefined
      ? repeatedKeys(document, lines)
      : [at(error.pos[0], lines, `valid YAML${quoteHint(text, error.pos[0])}`)]
  if (faults.length > 0) throw new ConfigError(faults)
  return valueIn(document)
}

function repeatedKeys(document: Document.Parsed, lines: LineCounter): Fault[] {
  const faults: Fault[] = []
  visit(document, {
    Map(_, { items }) {
      const names = new Set<string>()
      for (const { key } of items) {
        const name = String(key)
        if (names.has(name) && isScalar(key)) {
          faults.push(at(key.range?.[0] ?? 0, lines, `the key ${name} only once in this mapping`))
        }
        names.add(name)
      }
    },
  })
  return faults
}

/** A hint to quote a reference: inside braces and brackets, YAML reads the braces of the reference as a mapping. */
function quoteHint(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf("\n", offset - 1) + 1).split("\n", 1)[0] ?? ""
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the message shows what people write
  return line.includes("${") ? '; inside { } and [ ] quote a reference: "${NAME}"' : ""
}

function at(offset: number, lines: LineCounter, expected: string): Fault {
  return { path: `line ${lines.linePos(offset).line}`, expected }
}

/** Aliases are resolved only here, so their errors surface here. */
function valueIn(document: Document.Parsed): unknown {
  try {
    return document.toJS({ maxAliasCount: -1 })
  } catch {
    const expected = "valid YAML: an anchor before its aliases, and a mapping after each <<"
    throw new ConfigError([{ path: "", expected }])
  }
}
