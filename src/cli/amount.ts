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
