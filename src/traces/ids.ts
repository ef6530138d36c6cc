const POOL_BYTES = 4_096
let pool = Buffer.alloc(0)
let at = 0

/** `bytes` random bytes as hex digits. */
function hex(bytes: number): string {
  if (at + bytes > pool.length) {
    pool = crypto.getRandomValues(Buffer.alloc(POOL_BYTES))
    at = 0
  }
  at += bytes
  return pool.toString("hex", at - bytes, at)
}

export function newTraceId(): string {
  return hex(16)
}

export function newSpanId(): string {
  return hex(8)
}
