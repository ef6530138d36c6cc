import { BlockList, isIP } from "node:net"

/** Addresses that no receiver of events may have unless the operator allows it: everything but the public internet. */

/** Networks that are not the public internet (RFC 6890). */
const PRIVATE_V4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/3",
]
/** Everything but 2000::/3; and of that the protocol, documentation and 6to4 parts. */
const PRIVATE_V6 = ["::/3", "4000::/2", "8000::/1", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/16"]

const private_v4 = listOf(PRIVATE_V4, "ipv4")
const private_v6 = listOf(PRIVATE_V6, "ipv6")
/** IPv4 addresses in IPv6 form, which are as private as they are. */
const mapped_v4 = listOf(["::ffff:0:0/96"], "ipv6")

function listOf(networks: readonly string[], version: "ipv4" | "ipv6"): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [first = "", bits] = network.split("/")
    list.addSubnet(first, Number(bits), version)
  }
  return list
}

/** True unless the address is one of the public internet. */
export function isPrivate(address: string): boolean {
  const [bare = ""] = address.split("%")
  const version = isIP(bare)
  if (version === 0) return true
  if (version === 4) return private_v4.check(bare)
  return (mapped_v4.check(bare, "ipv6") ? private_v4 : private_v6).check(bare, "ipv6")
}
