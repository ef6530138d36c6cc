/**
 * A UUIDv7 for a new entity, so that a retry does not create it twice. `crypto.randomUUID` is not available on pages without
 * HTTPS.
 */
export function ownId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(10))
  const random = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")
  const time = Date.now().toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6, 18)}`
}
