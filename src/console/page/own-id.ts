/**
 * A UUIDv7 for something that is made: sent again after a fault it makes nothing twice. Browsers offer `crypto.randomUUID` only
 * to pages that came by a safe way.
 */
export function ownId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(10))
  const random = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")
  const time = Date.now().toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6, 18)}`
}
