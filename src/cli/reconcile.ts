import { readFileSync } from "node:fs"
import { readUsageExport, type UsageExport } from "../reconciliation/usage-export.ts"
import { CallBody } from "../wire/admin.ts"
import { ComparedUsage, type ReconciledRow, STEP_MS } from "../wire/reconciliation.ts"
import { causes, exportIn, type Provider, providers } from "../wire/reconciliation-words.ts"
import { type AdminContext, adminCommand, listAll } from "./admin-command.ts"
import { CliError, orFail, UsageError } from "./cli-error.ts"
import { type Column, count, usd, visible } from "./screen.ts"
import { pairsIn } from "./typed-words.ts"

const DEFAULT_TOLERANCE = 0.5

/** `tollgate reconcile`: a provider's usage export beside our journal (D98). */
export const reconcile = adminCommand({
  is_list: true,
  summary: "Compare a provider's usage export with the journal",
  details: `FILE has the pages of the provider's usage API, grouped by model, and also by key if you use --keys: one page, or an array of pages. For openrouter it is the CSV of its activity, whose requests are also matched by their ids, or the JSON of its activity by days. Usage of embeddings has a file of its own, and is compared with the calls for embeddings only. This command uses no network but the gateway's. It compares each hour, or day, and explains differences by attempts that failed or gave no answer, estimates, calls that were cut, calls at the bounds of the step, and calls from elsewhere, in this order. Steps without data and steps that ended less than 24 hours ago are not compared. Amounts are at the configured prices. Charges never change. The exit code is 1 if more than the tolerance is unexplained or from elsewhere (default: ${DEFAULT_TOLERANCE} %), if the provider counts tokens of a model to which there are no calls, or if there are sums but none could be compared.`,
  words: {
    "<provider>": ["the provider of the export", providers],
    "<file>": "the export",
    "--upstream <NAME,…>": "the upstreams of this provider (default: one with its name)",
    "--map <THEIRS=OURS,…>": "our names of their models, where they differ by more than a date",
    "--keys <ID=NAME,…>": "also compare by key: our names for the ids of their keys",
    "--tolerance <PERCENT>": "how much may be unexplained or from elsewhere",
  },
  examples: {
    "tollgate reconcile openai usage.json": "every hour of the export",
    "tollgate reconcile openai usage.json --upstream first --map gpt-5-mini-2025-08-07=fast --tolerance 1 --json":
      "another upstream and model; as JSON, for scripts",
  },
  async run({ provider: word, file, upstream, map, keys, tolerance }, context) {
    const provider = providers.find((name) => name === word)
    if (provider === undefined) throw new UsageError(`the provider is one of ${providers.join(", ")}`)
    const most = toleranceOf(tolerance)
    const { value, exported } = readExport(provider, file)
    const upstreams = (upstream ?? provider).split(",")
    const request = {
      provider,
      export: value,
      upstreams,
      models: Object.fromEntries(pairsIn("--map", map, "THEIRS=OURS")),
      ...(keys !== undefined && { keys: Object.fromEntries(pairsIn("--keys", keys, "THEIRS=OURS")) }),
    }
    const compared = await context.client.post("/reconciliation", request, ComparedUsage)
    const requests = await matchRequests(context, exported)
    const result = { ...compared, ...(requests && { requests }) }
    const rows = result.rows.filter(({ state, difference }) => state !== "compared" || difference !== "0")
    context.showTable(result, { rows, columns: COLUMNS, empty: "Every step agrees." })
    for (const text of [...remarksOn(result), ...remarksOnRequests(requests)]) context.remark(text)
    if (result.rows.every(({ ours }) => ours === null))
      context.remark(
        visible(`No call of ours in this time was by ${upstreams.join(", ")}: --upstream names others.`),
      )
    const faults = faultsOf(result, most)
    if (faults.length > 0) throw new CliError(faults.join("; "))
  },
})

/** A model without calls has no price, so no tolerance. Sums of which none could be compared prove nothing. */
function faultsOf(
  { rows, unmatched, unmatched_percent, requests }: ComparedUsage & { requests?: RequestMatches },
  most_percent: number,
): string[] {
  const is_unproved =
    rows.length > 0 && requests === undefined && rows.every(({ state }) => state !== "compared")
  const foreign = rows.flatMap(({ state, model, theirs }) =>
    state === "not_sold" && (tokensOf(theirs) ?? 0) > 0 ? visible(model) : [],
  )
  const names = [...new Set(foreign)].join(", ")
  return [
    ...(unmatched_percent > most_percent
      ? [`${usd(unmatched)} USD (${unmatched_percent} %) are unexplained or from elsewhere`]
      : []),
    ...(is_unproved ? ["nothing was compared; the last column says why"] : []),
    ...(names === "" ? [] : [`the provider counts tokens of models without calls of ours: ${names}`]),
  ]
}

function toleranceOf(text: string | undefined): number {
  const tolerance = text === undefined ? DEFAULT_TOLERANCE : Number(text)
  if (!(tolerance >= 0 && tolerance <= 100) || text?.trim() === "")
    throw new UsageError("--tolerance: expected a percentage from 0 to 100")
  return tolerance
}

function readExport(provider: Provider, file: string) {
  const value = exportIn(orFail(() => readFileSync(file, "utf8"), `cannot read ${file}: `))
  const exported = readUsageExport(provider, value)
  if (exported === null)
    throw new CliError(
      `${file} is not an export of ${provider}'s usage by model: save the pages of one usage API, grouped by model, or for openrouter the CSV or JSON of its activity`,
    )
  return { value, exported }
}

const STATES: Readonly<Record<ReconciledRow["state"], string>> = {
  compared: "",
  no_data: "no data in the export",
  too_young: "too young to compare",
  not_sold: "no calls of ours: see --map",
}

const tokensOf = (tokens: { prompt_tokens: number; completion_tokens: number } | null) =>
  tokens && tokens.prompt_tokens + tokens.completion_tokens

const COLUMNS: readonly Column<ReconciledRow>[] = [
  { title: "FROM", of: ({ from }) => from, as: "time" },
  { title: "MODEL", of: ({ model }) => model, least: 8 },
  { title: "KEY", of: ({ key }) => key, spare: 3 },
  { title: "THEIR CALLS", of: ({ theirs }) => theirs?.requests, as: "count", spare: 2 },
  { title: "OURS", of: ({ ours }) => ours?.calls, as: "count", spare: 2 },
  { title: "THEIR TOKENS", of: ({ theirs }) => tokensOf(theirs), as: "count" },
  { title: "OURS", of: ({ ours }) => tokensOf(ours), as: "count" },
  { title: "DIFFERENCE", of: ({ difference }) => difference, as: "usd" },
  { title: "UNEXPLAINED", of: ({ unexplained }) => unexplained, as: "usd" },
  { title: "EXPLAINED BY", of: explanation },
]

function explanation({ state, explained }: ReconciledRow): string {
  if (explained === null) return STATES[state]
  const parts = causes.flatMap((cause) =>
    explained[cause] === "0" ? [] : `${cause} ${usd(explained[cause])}`,
  )
  return parts.join(", ")
}

/** The most ids that are named; `--json` has all. */
const NAMED = 5

function remarksOnRequests(requests: RequestMatches | null): string[] {
  if (requests === null) return []
  const { matched, missing, differing } = requests
  const named = (ids: readonly string[]) =>
    visible(`${ids.slice(0, NAMED).join(", ")}${ids.length > NAMED ? ", …" : ""}`)
  return [
    `Matched ${count(matched)} requests by the provider's id.`,
    ...(missing.length === 0
      ? []
      : [`No call or attempt of ours has ${count(missing.length)}: ${named(missing)}.`]),
    ...(differing.length === 0
      ? []
      : [`Calls with other tokens than the provider's: ${count(differing.length)}: ${named(differing)}.`]),
  ]
}

function remarksOn({ rows, theirs, ours, unexplained, explained, has_more }: ComparedUsage) {
  const compared = rows.filter(({ state }) => state === "compared").length
  return [
    `Compared ${count(compared)} of ${count(rows.length)} sums: theirs ${usd(theirs)} USD, ours ${usd(ours)} USD, unexplained ${usd(unexplained)} USD, from elsewhere ${usd(explained.elsewhere)} USD.`,
    ...(has_more ? [visible("The export says that it has more pages, which are not in the file.")] : []),
  ]
}

type RequestMatches = NonNullable<Awaited<ReturnType<typeof matchRequests>>>

/**
 * The requests of an export beside our calls and attempts, by the provider's ids (D86, D98): how many match, the ids of those
 * that do not, and our ids of calls with other tokens. Null if it has no requests, or none of them has a match.
 */
async function matchRequests(context: AdminContext, { usages, from_ms, to_ms }: UsageExport) {
  const reported = usages.flatMap((usage) =>
    usage.request_id === undefined ? [] : { ...usage, id: usage.request_id },
  )
  if (reported.length === 0) return null
  const [from, to] = [from_ms - STEP_MS.hour, to_ms].map((ms) => new Date(ms).toISOString())
  const { data } = await listAll(context, "/calls", { from: from ?? "", to: to ?? "" }, CallBody)
  const calls = new Map(data.map((call) => [call.provider_request_id, call]))
  const attempts = new Set(
    data.flatMap((call) => (call.attempts ?? []).map((attempt) => attempt.provider_request_id)),
  )
  const missing = reported.filter(({ id }) => !calls.has(id) && !attempts.has(id)).map(({ id }) => id)
  if (missing.length === reported.length) return null
  const differing = reported.flatMap(({ id, prompt_tokens, completion_tokens }) => {
    const call = calls.get(id)
    if (call === undefined || call.usage === null) return []
    const { usage } = call
    return usage.prompt_tokens === prompt_tokens && usage.completion_tokens === completion_tokens
      ? []
      : call.id
  })
  return { matched: reported.length - missing.length, missing, differing }
}
