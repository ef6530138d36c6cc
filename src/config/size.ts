const UNIT_BYTES: Readonly<Record<string, number>> = {
  B: 1,
  KB: 1_000,
  KiB: 1_024,
  MB: 1_000_000,
  MiB: 1_048_576,
}

/** A size: a whole number above zero and a unit. Below 1 GiB, the limit of a string. */
export const SIZE = /^(?!0+[BKM])(?:\d{1,9}B|\d{1,6}Ki?B|\d{1,3}Mi?B)$/

/** `20MiB`, `512KiB`, `8MB`, `64B` in bytes; null when `text` is no size. */
export function parseSize(text: string): number | null {
  const unit_bytes = UNIT_BYTES[text.replace(/^\d+/, "")]
  return SIZE.test(text) && unit_bytes !== undefined ? Number.parseInt(text, 10) * unit_bytes : null
}
