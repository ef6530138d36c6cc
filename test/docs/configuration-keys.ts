import type { TSchema } from "@sinclair/typebox"
import { ConfigFile } from "../../src/config/file.ts"
import { EXPECTED } from "../../src/wire/fault.ts"
import { textOf } from "../support/repository.ts"
import { CONFIGURATION_PAGE } from "./blocks.ts"

/** The tables of docs/configuration.md, one for each part of the file, made of the schema of the file. */

const BEGIN = "<!-- made of the schema by `bun test/docs/write.ts` -->\n"
const END = "<!-- end -->"

export interface Key {
  /** The mapping that it is in, such as `models[].open`; empty for the top. */
  readonly part: string
  readonly name: string
  readonly schema: TSchema
}

/** All keys, except the mappings that have none but keys of their own. */
export function keysOf({ properties }: TSchema, part = ""): Key[] {
  return Object.entries<TSchema>(properties).flatMap(([name, schema]) => {
    const below = belowOf(schema)
    if (schema.description !== undefined || below === null) return [{ part, name, schema }]
    const place = `${part}${part === "" ? "" : "."}${name}`
    return keysOf(below.schema, place + below.suffix)
  })
}

function belowOf(schema: TSchema): { readonly schema: TSchema; readonly suffix: string } | null {
  if (schema.properties !== undefined) return { schema, suffix: "" }
  if (schema.items?.properties !== undefined) return { schema: schema.items, suffix: "[]" }
  const [entry]: TSchema[] = Object.values(schema.patternProperties ?? {})
  return entry?.properties === undefined ? null : { schema: entry, suffix: ".NAME" }
}

/** The page with its tables as the schema has them. */
export function configurationPage(): string {
  const page = textOf(CONFIGURATION_PAGE)
  const [before = "", rest = ""] = page.split(BEGIN)
  return `${before}${BEGIN}\n${tables()}\n\n${END}${rest.split(END)[1] ?? ""}`
}

function tables(): string {
  const parts = Map.groupBy(keysOf(ConfigFile), ({ part }) => part)
  return [...parts]
    .map(([part, keys]) => {
      const head = part === "" ? "**At the top:**" : `**\`${part}\`:**`
      const rows = keys.map(
        ({ name, schema }) =>
          `| \`${name}\` | ${meaningOf(schema)} | ${valuesOf(schema)} | ${defaultOf(schema)} |`,
      )
      return [head, "", "| key | meaning | values | default |", "|---|---|---|---|", ...rows].join("\n")
    })
    .join("\n\n")
}

/** Without rulings, which a page for users cites only as links. */
function meaningOf({ description = "" }: TSchema): string {
  return description.replace(/ \(D\d+\)/g, "")
}

function valuesOf(schema: TSchema): string {
  const { type, anyOf = [], minimum, maximum } = schema
  const words = anyOf.map((one: TSchema) => one.const)
  const text =
    schema["x-unit"] === "ms"
      ? "duration"
      : schema["x-unit"] === "bytes"
        ? "size"
        : words.length > 0 && words.every((word: unknown) => typeof word === "string")
          ? words.map((word: string) => `\`${word}\``).join(", ")
          : type === "integer"
            ? `${minimum.toLocaleString("en")} to ${maximum.toLocaleString("en")}`
            : String(schema[EXPECTED])
  return text.replaceAll("|", "\\|")
}

function defaultOf(schema: TSchema): string {
  return schema.default === undefined ? "" : `\`${JSON.stringify(schema.default).replaceAll('"', "")}\``
}
