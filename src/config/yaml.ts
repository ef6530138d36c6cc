import { ConfigError } from "./error.ts"

/** The value of one YAML document; throws a `ConfigError` that says the line, and shows nothing of it. */
export function parseYaml(text: string): unknown {
  const value = attempt(text)
  if (value === undefined)
    throw new ConfigError([{ path: `line ${faultyLine(text)}`, expected: "valid YAML" }])
  return value
}

/**
 * Bun's parser does not tell where it stopped: the fault is in the line after the longest beginning that it can read.
 * A bracket or quote that is never closed is found where it opens.
 */
function faultyLine(text: string): number {
  const lines = text.split("\n")
  for (let count = lines.length - 1; count > 0; count--) {
    if (attempt(lines.slice(0, count).join("\n")) !== undefined) return count + 1
  }
  return 1
}

function attempt(text: string): unknown {
  try {
    return Bun.YAML.parse(text) ?? null
  } catch {
    return undefined
  }
}
