import { groupDigits } from "../money.ts"

/** Formats amounts for people. Amounts stay decimal strings throughout and never become numbers. */

/** With at least two decimals: `10.00`, `-9.9871`. */
export function usd(amount: string): string {
  const [whole = "", fraction = ""] = amount.split(".")
  return `${whole}.${fraction.padEnd(2, "0")}`
}

/** Whole numbers in groups of three digits: `2,417`. */
export function count(number: number): string {
  return groupDigits(number.toString())
}

const PICO_PER_USD = 1_000_000_000_000n

/** The exact cost of `tokens` at a price in pico-USD each, before a call's single rounding. */
export function costOf(tokens: number, price_pico: bigint): string {
  const cost_pico = BigInt(tokens) * price_pico
  const fraction = (cost_pico % PICO_PER_USD).toString().padStart(12, "0").replace(/0+$/, "")
  return usd(`${cost_pico / PICO_PER_USD}.${fraction}`)
}
