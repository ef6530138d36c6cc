import { groupDigits } from "../money.ts"

/** Amounts as people read them. They come as decimal strings and stay so: no number in between. */

/** With two decimals at least: `10.00`, `9.9871`; a minus stays where it is. */
export function usd(amount: string): string {
  const [whole = "", fraction = ""] = amount.split(".")
  return `${whole}.${fraction.padEnd(2, "0")}`
}

/** Whole numbers in groups of three digits: `2,417`. */
export function count(number: number): string {
  return groupDigits(number.toString())
}

const PICO_PER_USD = 1_000_000_000_000n

/** What so many tokens cost at a price in pico-USD each, exactly, before the one rounding of a call. */
export function costOf(tokens: number, price_pico: bigint): string {
  const cost_pico = BigInt(tokens) * price_pico
  const fraction = (cost_pico % PICO_PER_USD).toString().padStart(12, "0").replace(/0+$/, "")
  return usd(`${cost_pico / PICO_PER_USD}.${fraction}`)
}
