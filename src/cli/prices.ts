import { readFileSync } from "node:fs"
import { stringify } from "yaml"
import { type Config, ConfigError } from "../config/config.ts"
import { readEnvironment } from "../config/environment.ts"
import type { Sources } from "../config/values.ts"
import { configPath, readConfig, sourcesWith } from "../start/setup.ts"
import { CliError, orFail, reasonOf, UsageError } from "./cli-error.ts"
import { type Group, leaf } from "./command.ts"
import { type Comparison, comparePrices, type PriceDifference } from "./price-comparison.ts"
import { readPriceList } from "./price-list.ts"
import { type Column, type Screen, table, usd, visible } from "./screen.ts"
import { START_WORDS, variablesOf } from "./serve.ts"
import { pairsIn } from "./typed-words.ts"

export const prices: Group = {
  summary: "Compare the configured prices with a published price list",
  commands: {
    diff: leaf({
      summary: "Compare the configured prices with a price list",
      details:
        "FILE is LiteLLM's model_prices_and_context_window.json or the data.json of genai-prices. Download it first: this command uses no network. It lists prices that differ and prices that Tollgate cannot charge, and prints the configuration with the prices of the list. It finds an entry by the upstream's model name, with or without a provider in front. The exit code is 1 if a price differs, or if a model has no entry.",
      words: {
        "<file>": "the price list",
        "--map <MODEL=ENTRY,…>":
          "the entry of a model whose name is not in the list, or matches several entries",
        "--config <FILE>": START_WORDS["--config <FILE>"],
        "--json": "print the result as JSON",
      },
      examples: {
        "tollgate prices diff model_prices_and_context_window.json": "every model of the configuration",
        "tollgate prices diff data.json --map fast=openai/gpt-5-mini --json":
          "with the entry for the model fast; as JSON, for scripts",
      },
      run({ file: path, map, json, ...given }, screen) {
        const env = { ...screen.env, ...variablesOf(given) }
        const config = configOf(sourcesWith(env))
        const mapped = entriesOf(map, config)
        const list = readPriceList(
          orFail(() => readFileSync(path, "utf8"), `cannot read ${path}: `),
          new Date(),
        )
        if (list === null) {
          throw new CliError(
            `${path} is neither model_prices_and_context_window.json of LiteLLM nor data.json of genai-prices`,
          )
        }
        for (const [model, name] of mapped) {
          if (list.named(name) === null)
            throw new UsageError(`--map ${model}=${name}: ${path} has no entry ${name}`)
        }
        const models = comparePrices(config, list, mapped)
        const differing = models.filter(({ same }) => !same)
        if (json) {
          screen.print(JSON.stringify({ same: differing.length === 0, format: list.format, models }, null, 2))
        } else {
          screen.print(
            [...models.map((model) => comparisonText(model, screen)), ...neededText(differing)].join("\n\n"),
          )
        }
        if (differing.length > 0)
          throw new CliError(`${differing.length} of ${models.length} models differ from the list`)
      },
    }),
  },
}

function configOf(sources: Sources): Config {
  try {
    const path = configPath(readEnvironment(sources))
    if (path !== null) return readConfig(path, sources).config
  } catch (error) {
    const before = error instanceof ConfigError ? "the configuration is invalid: " : ""
    throw new CliError(`${before}${reasonOf(error).replaceAll("\n", "; ")}`)
  }
  throw new CliError("there is no configuration: use --config, set TOLLGATE_CONFIG, or create tollgate.yaml")
}

/** The `--map` flag: entries by the name of the model. */
function entriesOf(text: string | undefined, { models }: Config): Map<string, string> {
  const entries = new Map(pairsIn("--map", text, "MODEL=ENTRY, such as fast=openai/gpt-5-mini"))
  for (const model of entries.keys())
    if (!models.some(({ name }) => name === model))
      throw new UsageError(`--map: the configuration has no model ${model}`)
  return entries
}

/** One model: a line that says whether it agrees, the prices that do not, and all that could not be compared. */
function comparisonText(comparison: Comparison, screen: Screen): string {
  const { model, upstream, entry, same, differences } = comparison
  const mark = same ? screen.paint("green", "✓") : screen.paint("red", "✗")
  const title = `${mark} ${screen.paint("bold", visible(model))} at ${upstream}`
  if (entry === null) return `${title}: ${unmatchedWords(comparison)}`
  const reasons = Map.groupBy(comparison.not_chargeable, ({ reason }) => reason)
  const some = (what: string, names: readonly string[]) =>
    names.length === 0 ? [] : [`  ${what}: ${names.join(", ")}`]
  return [
    `${title}, listed as ${visible(entry)}: ${verdict(comparison)}`,
    ...(differences.length === 0 ? [] : [table(COLUMNS, differences, screen)]),
    ...comparison.not_exact.map(
      ({ key, value }) => `  ${visible(`${key} is ${value}`)}, which cannot be charged exactly`,
    ),
    ...[...reasons].map(
      ([reason, refused]) =>
        `  not chargeable: ${visible(refused.map(({ key }) => key).join(", "))} (${reason})`,
    ),
    ...some("service tiers without a configured price, which are refused", comparison.not_configured),
    ...some("only in the configuration", comparison.only_configured),
  ].join("\n")
}

function unmatchedWords({ model, candidates }: Comparison): string {
  const map = `name the entry with --map '${visible(model)}=ENTRY'`
  if (candidates.length === 0) return `not in the list under this name; ${map}`
  return `${candidates.length} entries match (${visible(candidates.join(", "))}); ${map}`
}

function verdict({ same, differences, needed }: Comparison): string {
  if (same) return "the same"
  if (needed === null) return "the entry has no price for the input or for the output"
  if (differences.length === 0) return "not comparable"
  return differences.length === 1 ? "1 price differs" : `${differences.length} prices differ`
}

const COLUMNS: readonly Column<PriceDifference>[] = [
  {
    title: "  KIND",
    of: ({ kind, service_tier }) => (service_tier === null ? `  ${kind}` : `  ${kind} (${service_tier})`),
  },
  { title: "PROMPT ABOVE", of: ({ above }) => (above === 0 ? "" : above), as: "number" },
  {
    title: "CONFIGURED",
    of: ({ configured }) => (configured === null ? "none" : usd(configured)),
    as: "point",
  },
  { title: "LISTED", of: ({ listed }) => listed, as: "usd" },
]

/** The keys of the configuration file that would agree with the list. */
function neededText(differing: readonly Comparison[]): string[] {
  const models = differing.flatMap(({ model, needed }) =>
    needed === null ? [] : [{ name: model, ...needed }],
  )
  if (models.length === 0) return []
  return [`The configuration would need:\n\n${stringify({ models }, { lineWidth: 0 }).trimEnd()}`]
}
