import type { PriceListBody } from "../wire/price-lists.ts"

/** The prices of a list as lines that people write: `gpt-5-mini input=0.2 output=1.6`, `gpt-5 0.9`, `all 0.85`. */

type ListPrice = PriceListBody["prices"][number]

const ALL = "all"
const TOOL = "tool_run."

export function priceLine({ model, price_multiplier, prices }: ListPrice): string {
  return [model ?? ALL, price_multiplier ?? pricesLine(prices ?? {})].join(" ")
}

export function pricesLine({ tool_run = {}, ...kinds }: NonNullable<ListPrice["prices"]>): string {
  const tools = Object.entries(tool_run).map(([tool, price]) => [`${TOOL}${tool}`, price] as const)
  return [...Object.entries(kinds), ...tools].map(([kind, price]) => `${kind}=${price}`).join(" ")
}

/** The price of a line, as a request has it. The gateway refuses what is wrong with it. */
export function priceIn(line: string): object {
  const [model = "", ...words] = line.trim().split(/\s+/)
  const kinds: Record<string, string> = {}
  const tool_run: Record<string, string> = {}
  let price_multiplier: string | undefined
  for (const word of words) {
    const at = word.lastIndexOf("=")
    const [name, price] = [word.slice(0, Math.max(at, 0)), word.slice(at + 1)]
    if (at < 0) price_multiplier = word.replace(/^[×x]/, "")
    else if (name.startsWith(TOOL)) tool_run[name.slice(TOOL.length)] = price
    else kinds[name] = price
  }
  const prices = { ...kinds, ...(Object.keys(tool_run).length > 0 && { tool_run }) }
  return {
    ...(model !== ALL && { model }),
    ...(price_multiplier !== undefined && { price_multiplier }),
    ...(Object.keys(prices).length > 0 && { prices }),
  }
}
