import { isIP } from "node:net"

/** Addresses that no receiver of events may have unless the operator allows it: everything but the public internet. */

/** First address and bits of networks that are not the public internet (RFC 6890). */
const PRIVATE_V4: readonly (readonly [first: string, bits: number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
]

/** True unless the address is one of the public internet. */
export function isPrivate(address: string): boolean {
  const [bare = ""] = address.replace(/^\[|\]$/g, "").split("%")
  const version = isIP(bare)
  if (version === 4) return isPrivateV4(bare)
  return version === 0 || isPrivateV6(groupsOf(bare))
}

function isPrivateV4(address: string): boolean {
  const given = numberOf(address)
  return PRIVATE_V4.some(([first, bits]) => {
    const size = 2 ** (32 - bits)
    return Math.floor(given / size) === Math.floor(numberOf(first) / size)
  })
}

function numberOf(address: string): number {
  return address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0)
}

/** Public are 2000::/3 without its protocol, documentation and 6to4 parts; and IPv4 addresses in IPv6 form as they are. */
function isPrivateV6(groups: readonly number[]): boolean {
  const [first = 0, second = 0] = groups
  const [high = 0, low = 0] = groups.slice(6)
  const is_mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  if (is_mapped) return isPrivateV4([high >> 8, high & 255, low >> 8, low & 255].join("."))
  if (first < 0x2000 || first > 0x3fff) return true
  if (first === 0x2001 && (second < 0x200 || second === 0xdb8)) return true
  return first === 0x2002 || first === 0x3fff
}

/** The eight numbers of an IPv6 address, in the form that a URL gives it. */
function groupsOf(address: string): readonly number[] {
  const { hostname } = new URL(`http://[${address}]`)
  const [front = "", back] = hostname.slice(1, -1).split("::")
  const numbers = (text: string) =>
    text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16))
  const [head, tail] = [numbers(front), numbers(back ?? "")]
  return back === undefined
    ? head
    : [...head, ...Array<number>(8 - head.length - tail.length).fill(0), ...tail]
}
