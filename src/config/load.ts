import { type Static, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { databaseUrlFault } from "../ledger/database/database-url.ts"
import { presets } from "../presets/presets.ts"
import type { OperationName } from "../wire/call.ts"
import { type Fault, faults } from "../wire/fault.ts"
import {
  COPIES,
  type Config,
  ConfigError,
  haveOutput,
  type Model,
  operationsOf,
  type Route,
  type Upstream,
} from "./config.ts"
import { ADMIN_PORT, ConfigFile, type FileModel, ModelSettings, Settings } from "./file.ts"
import { upstreamOf } from "./load-upstream.ts"
import { checkSet, priceOf, refusedIn, serviceTiersOf, tiersOf } from "./model-prices.ts"
import { checkOidc } from "./oidc.ts"
import { type Decoded, decoded } from "./schema.ts"
import { complete, type Environ, type FaultReport, resolve, type Sources, under } from "./values.ts"
import { parseYaml } from "./yaml.ts"

/** Parses the YAML `text`. Throws a `ConfigError` with all errors of form or, if there are none, all those of meaning. */
export function loadConfig(text: string, sources: Sources): Config {
  const { value, faults: unresolved } = resolve(parseYaml(text), sources)
  const file = complete(ConfigFile, value)
  if (!Value.Check(ConfigFile, file) || unresolved.length > 0) {
    const known = new Set(unresolved.map(({ path }) => path))
    throw new ConfigError([
      ...unresolved,
      ...[...faults(ConfigFile, file)].filter(({ path }) => !known.has(path)),
    ])
  }
  const found: Fault[] = []
  const config = configFrom(file, sources.env, (path, expected) => found.push({ path, expected }))
  if (found.length > 0) throw new ConfigError(found)
  return config
}

const DAY_MS = 86_400_000

function configFrom(file: ConfigFile, env: Environ, report: FaultReport): Config {
  const proxies = { common: file.proxy, env, report }
  const upstreams = new Map(
    Object.entries(file.upstreams).map(([name, section]) => [
      name,
      upstreamOf(name, section, proxies, under(report, `upstreams.${name}`)),
    ]),
  )
  const { keep } = file.journal
  const { show_price_multiplier, show_margin } = file.receipts
  const settings = decoded(Settings, file)
  const config: Config = {
    ...settings,
    ...operatorsOf(settings.admin, report),
    receipts: { show_price_multiplier: show_price_multiplier || show_margin, show_margin },
    vendors: file.vendors,
    upstreams: [...upstreams.values()],
    models: modelsOf(file.models, upstreams, report),
    journal: { keep_months: keep === undefined ? null : Number.parseInt(keep, 10) },
    shards: shardsOf(file.shards ?? [], report),
  }
  checkOrigins(config.cors.origins, report)
  if (config.lease.expire_ms <= 2 * config.lease.renew_ms) {
    report("lease.expire", "more than twice lease.renew, so that one late renewal does not lose the lease")
  }
  const { memory_bytes, body_bytes } = config.limits
  if (memory_bytes !== null && memory_bytes < COPIES * body_bytes)
    report("limits.memory", `at least ${COPIES} times limits.body, so that one body fits`)
  if ((config.idempotency.keep_answers_ms ?? 0) > DAY_MS) {
    report("idempotency.keep_answers", "at most 24h, the lifetime of an Idempotency-Key")
  }
  return config
}

/** The operators' listener and sign-in. A listener needs a port; a sign-in alone has the clients' listener. */
function operatorsOf(admin: Decoded<Static<typeof Settings>>["admin"], report: FaultReport) {
  if (admin === null) return { admin, oidc: null }
  const { oidc, port, ...listener } = admin
  if (oidc !== null) checkOidc(oidc, under(report, "admin.oidc"))
  if (port !== null) return { admin: { ...listener, port }, oidc }
  if (oidc === null || listener.open_metrics) report("admin.port", ADMIN_PORT)
  return { admin: null, oidc }
}

/** Origins must be in the form that browsers send, because they are compared byte for byte: no trailing slash, no default port, no `*`. */
function checkOrigins(origins: readonly string[], report: FaultReport): void {
  origins.forEach((origin, at) => {
    const is_whole = URL.canParse(origin) && new URL(origin).origin === origin
    if (!is_whole || !/^https?:/.test(origin))
      report(`cors.origins[${at}]`, "an origin as browsers send it, such as https://app.example.com")
  })
}

/** Each is another place (D74). The URL is a secret, so no fault shows it. */
function shardsOf(shards: NonNullable<ConfigFile["shards"]>, report: FaultReport): Config["shards"] {
  const names = new Set<string>()
  const places = new Set<string>()
  shards.forEach(({ name, url, schema }, at) => {
    const fault = databaseUrlFault(url)
    if (fault !== null) report(`shards[${at}].url`, fault)
    if (names.has(name)) report(`shards[${at}].name`, "a name that no other shard has")
    names.add(name)
    const place = JSON.stringify([url, schema])
    if (places.has(place)) report(`shards[${at}]`, "a database or a schema that no other shard has")
    places.add(place)
  })
  return shards
}

type Upstreams = ReadonlyMap<string, Upstream>

function modelsOf(models: readonly FileModel[], upstreams: Upstreams, report: FaultReport): Model[] {
  const names = new Set<string>()
  return models.flatMap((model, at) => {
    const reportModel = under(report, `models[${at}]`)
    const entry = `${model.family} ${model.name}`
    if (names.has(entry)) reportModel("name", `a name that no other ${model.family} model has`)
    names.add(entry)
    return modelOf(model, upstreams, reportModel) ?? []
  })
}

function modelOf(model: FileModel, upstreams: Upstreams, report: FaultReport): Model | null {
  const operations = operationsIn(model, upstreams, report)
  const generates = haveOutput(operations)
  const { max_rounds, hold_rounds } = model.open
  if (hold_rounds > max_rounds) report("open.hold_rounds", `at most max_rounds (${max_rounds})`)
  const output = outputOf(model, generates, report)
  const [first, ...others] = routesOf(model, upstreams, under(report, "upstreams"))
  checkSet(model, operations, report)
  if (first === undefined) return null
  const routes = [first, ...others] as const
  const isUnlimited = ({ upstream }: Route) =>
    presets[upstream.preset?.name ?? ""]?.unlimited_thinking === true
  return {
    ...decoded(ModelSettings, model),
    ...output,
    operations,
    routes,
    unlimited_thinking: model.unlimited_thinking ?? routes.some(isUnlimited),
    price: priceOf(model, generates, report),
    tiers: tiersOf(model, under(report, "price")),
    service_tiers: serviceTiersOf(model, under(report, "price")),
    refuse: refusedIn(model, under(report, "refuse")),
  }
}

/** The operations of a model; by default those of its family that all its upstreams offer (D63, D83). */
function operationsIn(model: FileModel, upstreams: Upstreams, report: FaultReport): readonly OperationName[] {
  const { family, operations, upstreams: ways } = model
  const known = operationsOf[family]
  if (operations === undefined) {
    const offers = ways.map(({ use }) => offeredBy(upstreams.get(use)) ?? known)
    const common = known.filter((operation) => offers.every((offer) => offer.includes(operation)))
    if (common.length > 0) return common
    report("operations", "a list of operations, because its upstreams have no operation in common")
    return known
  }
  operations.forEach((operation, at) => {
    if (!known.includes(operation))
      report(`operations[${at}]`, `an operation of the family ${family}: ${known.join(", ")}`)
  })
  return operations
}

function offeredBy(upstream: Upstream | undefined): readonly OperationName[] | undefined {
  return presets[upstream?.preset?.name ?? ""]?.[upstream?.family ?? "chat"]?.operations
}

/** The limits of a model's output; a model that only makes embeddings has none (D67). */
function outputOf(model: FileModel, generates: boolean, report: FaultReport) {
  if (!generates) {
    for (const key of ["max_output_tokens", "hold_output_tokens"] as const)
      if (model[key] !== undefined) report(key, "no such key, because embeddings have no output tokens")
    return { max_output_tokens: 0, hold_output_tokens: 0 }
  }
  if (model.max_output_tokens === undefined) report("max_output_tokens", "an integer from 1 to 10000000")
  const max_output_tokens = model.max_output_tokens ?? 1
  const hold_output_tokens = model.hold_output_tokens ?? max_output_tokens
  if (hold_output_tokens > max_output_tokens)
    report("hold_output_tokens", `at most max_output_tokens (${max_output_tokens})`)
  return { max_output_tokens, hold_output_tokens }
}

function routesOf({ name, family, upstreams: ways }: FileModel, upstreams: Upstreams, report: FaultReport) {
  const is_weighed = ways.some(({ weight, priority }) => weight !== undefined || priority !== undefined)
  return ways.flatMap(({ use, model = name, weight = 1, priority }, at) => {
    const upstream = upstreams.get(use)
    if (upstream?.family === family)
      return { upstream, model, priority: priority ?? (is_weighed ? 0 : at), weight }
    report(`[${at}].use`, oneOf(upstreams, use, family))
    return []
  })
}

function oneOf(upstreams: Upstreams, use: string, family: Upstream["family"]): string {
  const known = [...upstreams.values()].filter((upstream) => upstream.family === family)
  const names =
    known.length === 0 ? ", but none is configured" : `: ${known.map(({ name }) => name).join(", ")}`
  const other = upstreams.get(use)
  const hint =
    other === undefined ? "" : `; ${use} is for ${other.family}: add an upstream with family: ${family}`
  return `an upstream of the family ${family}${names}${hint}`
}

/** The raw configuration: the text of the file, and of all files that it references, by path. */
export const Snapshot = Type.Object({
  text: Type.String(),
  files: Type.Record(Type.String(), Type.String()),
})
export type Snapshot = Static<typeof Snapshot>

export interface Loaded {
  readonly config: Config
  readonly snapshot: Snapshot
}

/** Loads `text` like `loadConfig`, and keeps the content of all files that it read. */
export function takeSnapshot(text: string, { env, readFile }: Sources): Loaded {
  const files = new Map<string, string>()
  const config = loadConfig(text, {
    env,
    readFile(path) {
      const found = readFile(path)
      files.set(path, found)
      return found
    },
  })
  return { config, snapshot: { text, files: Object.fromEntries(files) } }
}

/** Loads the same configuration in another process, even if its files have changed since. */
export function configOf({ text, files }: Snapshot, env: Environ): Config {
  return loadConfig(text, {
    env,
    readFile(path) {
      const found = Object.hasOwn(files, path) ? files[path] : undefined
      if (found === undefined)
        throw new Error("the snapshot of the configuration does not contain a file that it names")
      return found
    },
  })
}
