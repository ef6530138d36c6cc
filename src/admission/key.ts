/** Gateway keys (D26): `tg_live_`, 30 random base62 characters (178 bits), 6 characters of checksum over all before them. */

const PREFIX = "tg_live_"
/** The prefix of operators' tokens (D101), which have the same form as keys. */
export const OPERATOR_PREFIX = "tgo_"
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const RANDOM_CHARS = 30
const CHECKSUM_CHARS = 6
const SHOWN_CHARS = 12
const REST = /^[0-9A-Za-z]{36}$/

/** A new key. It is shown once; the ledger keeps only its hash. */
export function makeKey(prefix = PREFIX): string {
  const body = prefix + randomBase62(RANDOM_CHARS)
  return body + checksum(body)
}

/** True if `key` has the form of a key and its checksum: a mistyped key is refused without the database. */
export function checksumHolds(key: string, prefix = PREFIX): boolean {
  if (!key.startsWith(prefix) || !REST.test(key.slice(prefix.length))) return false
  return key.endsWith(checksum(key.slice(0, -CHECKSUM_CHARS)))
}

/** SHA-256 in hex, by which the ledger identifies keys and other values that it must not store. */
export function hashOf(data: string | Uint8Array): string {
  return Bun.SHA256.hash(data, "hex")
}

/** The beginning of the key, by which people tell keys apart. */
export function prefixOf(key: string): string {
  return key.slice(0, SHOWN_CHARS)
}

/** CRC-32 in base62: one changed character always changes it. */
function checksum(body: string): string {
  let rest = Bun.hash.crc32(body)
  let text = ""
  for (let at = 0; at < CHECKSUM_CHARS; at++) {
    text = ALPHABET.charAt(rest % 62) + text
    rest = Math.floor(rest / 62)
  }
  return text
}

/** Skips bytes of 248 and above: 248 is the largest multiple of 62, so every character is equally likely. */
function randomBase62(length: number): string {
  let text = ""
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      if (byte < 248 && text.length < length) text += ALPHABET.charAt(byte % 62)
    }
  }
  return text
}
