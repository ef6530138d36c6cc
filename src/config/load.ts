import { Value } from "@sinclair/typebox/value"
import { type Fault, faults } from "../wire/fault.ts"
import type { Config, Model, Route, Upstream } from "./config.ts"
import { complete } from "./defaults.ts"
import { ConfigError } from "./error.ts"
import { ConfigFile } from "./file.ts"
import { priceOf, serviceTiersOf, tiersOf } from "./price.ts"
import { resolve, type Sources } from "./reference.ts"
import { parseDuration, parseSize, withoutSlashes } from "./values.ts"
import { parseYaml } from "./yaml.ts"

/**
 * Parses `text`, a YAML file. Throws a `ConfigError` with all errors: first those of form (unknown keys, wrong types, missing
 * variables); if there are none, those of meaning (such as unknown upstreams).
 */
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
  const config = configOf(file, (path, expected) => found.push({ path, expected }))
  if (found.length > 0) throw new ConfigError(found)
  return config
}

const DAY_MS = 86_400_000

type Report = (path: string, expected: string) => void

function configOf(file: ConfigFile, report: Report): Config {
  const { vendors, stream, limits, lease, shutdown } = file
  const { keep_answers } = file.idempotency
  const upstreams = new Map(
    Object.entries(file.upstreams).map(([name, upstream]) => [name, upstreamOf(name, upstream, report)]),
  )
  const config: Config = {
    admin: file.admin ?? null,
    cors: { origins: originsOf(file.cors.origins, report) },
    vendors,
    upstreams: [...upstreams.values()],
    models: modelsOf(file.models, upstreams, report),
    stream: {
      keepalive_ms: ms(stream.keepalive),
      commit_after_ms: ms(stream.commit_after),
      stall_ms: ms(stream.stall),
      finish_wait_ms: ms(stream.finish_wait),
    },
    limits: {
      body_bytes: bytes(limits.body),
      body_timeout_ms: ms(limits.body_timeout),
      response_bytes: bytes(limits.response),
      response_read_bytes: bytes(limits.response_read),
      event_bytes: bytes(limits.event),
      in_flight: limits.in_flight,
      per_key: {
        in_flight: limits.per_key.in_flight ?? null,
        requests_per_minute: limits.per_key.requests_per_minute ?? null,
      },
    },
    idempotency: { keep_answers_ms: keep_answers === undefined ? null : ms(keep_answers) },
    lease: { renew_ms: ms(lease.renew), expire_ms: ms(lease.expire) },
    shutdown: { ready_delay_ms: ms(shutdown.ready_delay), drain_ms: ms(shutdown.drain) },
    workers: file.workers,
  }
  if (config.lease.expire_ms <= 2 * config.lease.renew_ms) {
    report("lease.expire", "more than twice lease.renew, so that one late renewal does not lose the lease")
  }
  if ((config.idempotency.keep_answers_ms ?? 0) > DAY_MS) {
    report("idempotency.keep_answers", "at most 24h, the lifetime of an Idempotency-Key")
  }
  return config
}

/** Origins must be in the form that browsers send, because they are compared byte for byte: no trailing slash, no default port, no `*`. */
function originsOf(origins: readonly string[], report: Report): readonly string[] {
  origins.forEach((origin, at) => {
    const is_whole = URL.canParse(origin) && new URL(origin).origin === origin
    if (!is_whole || !/^https?:/.test(origin))
      report(`cors.origins[${at}]`, "an origin as browsers send it, such as https://app.example.com")
  })
  return origins
}

function upstreamOf(name: string, upstream: ConfigFile["upstreams"][string], report: Report): Upstream {
  const { family, base_url, api_key, timeouts, on_disconnect } = upstream
  if (!URL.canParse(base_url)) report(`upstreams.${name}.base_url`, "a URL")
  return {
    name,
    family,
    base_url: withoutSlashes(base_url),
    api_key: api_key ?? null,
    timeouts: {
      first_byte_ms: ms(timeouts.first_byte),
      idle_ms: ms(timeouts.idle),
      total_ms: ms(timeouts.total),
    },
    on_disconnect: {
      stream: on_disconnect.stream,
      json: on_disconnect.json,
      drain_for_ms: ms(on_disconnect.drain_for),
    },
  }
}

type Upstreams = ReadonlyMap<string, Upstream>

function modelsOf(models: ConfigFile["models"], upstreams: Upstreams, report: Report): Model[] {
  const names = new Set<string>()
  return models.flatMap((model, at) => {
    const path = `models[${at}]`
    const entry = `${model.family} ${model.name}`
    if (names.has(entry)) report(`${path}.name`, `a name that no other ${model.family} model has`)
    names.add(entry)
    return modelOf(model, path, upstreams, report) ?? []
  })
}

function modelOf(
  model: ConfigFile["models"][number],
  path: string,
  upstreams: Upstreams,
  report: Report,
): Model | null {
  const { name, family, max_output_tokens, part_tokens, bytes_per_token, estimate } = model
  const hold_output_tokens = model.hold_output_tokens ?? max_output_tokens
  if (hold_output_tokens > max_output_tokens) {
    report(`${path}.hold_output_tokens`, `at most max_output_tokens (${max_output_tokens})`)
  }
  const [first, ...others] = routesOf(model, path, upstreams, report)
  if (first === undefined) return null
  return {
    name,
    family,
    routes: [first, ...others],
    price: priceOf(model, path, report),
    tiers: tiersOf(model, path, report),
    service_tiers: serviceTiersOf(model, path, report),
    max_output_tokens,
    hold_output_tokens,
    part_tokens,
    context_tokens: model.context_tokens ?? null,
    hold_searches: model.hold_searches,
    bytes_per_token,
    estimate,
  }
}

function routesOf(
  { name, family, upstreams: ways }: ConfigFile["models"][number],
  path: string,
  upstreams: Upstreams,
  report: Report,
): Route[] {
  return ways.flatMap(({ use, model }, at) => {
    const upstream = upstreams.get(use)
    if (upstream === undefined || upstream.family !== family) {
      report(`${path}.upstreams[${at}].use`, oneOf(upstreams, family))
      return []
    }
    return { upstream, model: model ?? name }
  })
}

function oneOf(upstreams: Upstreams, family: Upstream["family"]): string {
  const known = [...upstreams.values()].filter((upstream) => upstream.family === family)
  if (known.length === 0) return `an upstream of the family ${family}, but none is configured`
  return `an upstream of the family ${family}: ${known.map(({ name }) => name).join(", ")}`
}

function ms(text: string): number {
  return read(parseDuration(text))
}

function bytes(text: string): number {
  return read(parseSize(text))
}

function read<T>(value: T | null): T {
  if (value === null) throw new Error("the schema of the file passed what its reader does not")
  return value
}
