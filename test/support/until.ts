/** The pause between two reads of `until`. It doubles up to the last one, so that a long wait takes little processor time. */
const FIRST_PAUSE_MS = 5
const LAST_PAUSE_MS = 50
/** After a slow read, such as an audit, the pause is twice as long as the read, but at most this. */
const LONG_PAUSE_MS = 250

/** Waits until `check` holds; the test's own timeout is the limit. */
export async function until<T>(read: () => Promise<T> | T, check: (value: T) => boolean): Promise<T> {
  for (let pause_ms = FIRST_PAUSE_MS; ; pause_ms = Math.min(2 * pause_ms, LAST_PAUSE_MS)) {
    const began_ms = performance.now()
    const value = await read()
    if (check(value)) return value
    const twice_ms = 2 * (performance.now() - began_ms)
    await Bun.sleep(Math.max(pause_ms, Math.min(twice_ms, LONG_PAUSE_MS)))
  }
}

/** Some fields of a value, such as the `length` of an array or the `size` of a map. */
type Fields<T> = T extends object ? { readonly [Name in keyof T as Name]?: T[Name] } : T

/** Waits until the read value is `wanted`, or has its fields. */
export function untilIs<T>(read: () => Promise<T> | T, wanted: Fields<T>): Promise<T> {
  return until(read, (value) => {
    if (typeof wanted !== "object" || wanted === null) return Object.is(value, wanted)
    if (typeof value !== "object" || value === null) return false
    return Object.entries(wanted).every(([name, field]) => Reflect.get(value, name) === field)
  })
}
