import type { Auth, Endpoint, Preset } from "../presets/preset.ts"
import { anyErrors, presetAt, presets, presetsOfHost } from "../presets/presets.ts"
import type { Family, Upstream } from "./config.ts"
import type { FileUpstream } from "./file.ts"
import { type FaultReport, withoutSlashes } from "./values.ts"

/** An upstream of the file, completed by its preset (D83). The file overrides the preset. */

type UpstreamDefaults = Pick<
  Upstream,
  "preset" | "family" | "base_url" | "usage" | "errors" | "idle_connection_ms"
> & {
  readonly auth: Auth
  readonly query: Readonly<Record<string, string>>
  readonly drop: readonly string[]
}

export function filled(section: FileUpstream, report: FaultReport): UpstreamDefaults {
  const named = presetOf(section)
  const preset = named === null ? NONE : named.preset
  const family = familyOf(section, named?.name ?? null, preset, report)
  const endpoint = preset[family] ?? null
  const unasked = preset.stream_usage === "unasked" ? ["stream_options"] : []
  return {
    preset: named === null ? null : { name: named.name, from: named.from },
    family,
    base_url: addressOf(section, named?.name ?? null, endpoint, report),
    auth: section.auth ?? endpoint?.auth ?? (family === "chat" ? "bearer" : "x-api-key"),
    query: { ...preset.query, ...section.query },
    drop: section.drop ?? [...unasked, ...(preset.drop ?? [])],
    usage: section.usage ?? preset.usage ?? "default",
    errors: preset.errors ?? anyErrors,
    idle_connection_ms: preset.idle_connection_ms ?? null,
  }
}

const NONE: Preset = { hosts: [] }

/** The preset of `provider`; otherwise the one whose address this is, if it offers the family. */
function presetOf({ provider, base_url = "", family }: FileUpstream) {
  const name = provider ?? presetAt(base_url)
  const preset = name === null ? undefined : presets[name]
  if (name === null || preset === undefined) return null
  if (provider !== undefined) return { name, preset, from: "provider" } as const
  return family !== undefined && preset[family] === undefined
    ? null
    : ({ name, preset, from: "base_url" } as const)
}

function familyOf(
  { family, base_url = "" }: FileUpstream,
  name: string | null,
  preset: Preset,
  report: FaultReport,
): Family {
  const offered = families.filter((each) => preset[each] !== undefined)
  const taken = family ?? offered[0]
  if (taken === undefined) report("family", `chat or messages${orProvider(base_url)}`)
  else if (name !== null && !offered.includes(taken))
    report("family", `${offered.join(" or ")}, because ${name} offers no other`)
  return taken ?? "chat"
}

const families = ["chat", "messages"] as const

/** A hint for a host that several presets share, or whose path decides. */
function orProvider(base_url: string): string {
  const names = presetsOfHost(base_url)
  return names.length === 0 ? "" : `, or provider: ${names.join(" or ")}, which has this host`
}

/** A word in the address of a preset that the operator replaces, such as REGION. */
const OPERATORS_OWN = /[A-Z]/

/** The `base_url` of the file, with the preset's path if it has none; otherwise the preset's address. */
function addressOf(
  { base_url }: FileUpstream,
  name: string | null,
  endpoint: Endpoint | null,
  report: FaultReport,
): string {
  const example = endpoint !== null && OPERATORS_OWN.test(endpoint.origin) ? endpoint.origin : null
  const origin = base_url ?? (example === null ? endpoint?.origin : undefined)
  if (origin === undefined) {
    if (example !== null)
      report("base_url", `your own address, such as ${example}, because ${name} has no common address`)
    // A provider that does not offer the family is reported there.
    else if (name === null) report("base_url", "an http or https URL without credentials, query or fragment")
    return ""
  }
  const given = withoutSlashes(origin)
  if (!URL.canParse(given)) report("base_url", "a URL")
  else if (new URL(given).pathname === "/" && endpoint !== null) {
    if (endpoint.path !== null) return given + endpoint.path
    report("base_url", `a URL with the path of your account or project, such as ${endpoint.origin}`)
  }
  return given
}
