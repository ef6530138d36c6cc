import * as clouds from "./clouds.ts"
import * as makers from "./makers.ts"
import type { ErrorMeanings, Preset } from "./preset.ts"
import * as servers from "./servers.ts"

const { azureV1, ...others } = makers

/** Presets by the name in `provider: openai` (D83). */
export const presets: Readonly<Record<string, Preset>> = {
  ...others,
  "azure-v1": azureV1,
  ...clouds,
  ...servers,
}

export const presetNames: readonly string[] = Object.keys(presets)

export function presetAt(base_url: string): string | null {
  if (!URL.canParse(base_url)) return null
  const { hostname, pathname } = new URL(base_url)
  const address = hostname + pathname
  return presetNames.find((name) => presets[name]?.hosts.some((host) => isWithin(address, host))) ?? null
}

/** The presets that have the host of an address, whatever its path. */
export function presetsOfHost(base_url: string): readonly string[] {
  if (!URL.canParse(base_url)) return []
  const address = `${new URL(base_url).hostname}/`
  return presetNames.filter((name) =>
    presets[name]?.hosts.some((host) => isWithin(address, host.split("/", 1)[0] ?? "")),
  )
}

/** True if an address begins with a host, which may have one `*`, and with its path if it has one. */
function isWithin(address: string, place: string): boolean {
  const [host = "", ...path] = place.split("/")
  const end = address.indexOf("/")
  const [before = "", after] = host.split("*")
  const hostname = address.slice(0, end)
  const is_host =
    after === undefined
      ? hostname === before
      : hostname.length > before.length + after.length &&
        hostname.startsWith(before) &&
        hostname.endsWith(after)
  return is_host && address.slice(end + 1).startsWith(path.join("/"))
}

/** The codes and messages of all providers, for an upstream without a preset or with one that names none. */
export const anyErrors: ErrorMeanings = {
  account: new Set(named(({ account }) => [...account])),
  account_messages: named(({ account_messages }) => account_messages),
  statuses: {},
}

function named<T>(read: (errors: ErrorMeanings) => readonly T[]): readonly T[] {
  return Object.values(presets).flatMap(({ errors }) => (errors === undefined ? [] : read(errors)))
}
