/** Preloaded into a gateway: at SIGUSR2 it tells how many timers are set. */

const set = new Set<unknown>()
const { setTimeout: wait, setInterval: repeat, clearTimeout: forget } = globalThis

globalThis.setTimeout = Object.assign(
  (callback: (...given: unknown[]) => void, ms?: number, ...given: unknown[]) => {
    const timer = wait(() => {
      set.delete(timer)
      callback(...given)
    }, ms)
    set.add(timer)
    return timer
  },
  wait,
)
globalThis.setInterval = Object.assign(
  (callback: (...given: unknown[]) => void, ms?: number, ...given: unknown[]) => {
    const timer = repeat(callback, ms, ...given)
    set.add(timer)
    return timer
  },
  repeat,
)
globalThis.clearTimeout = (timer?: unknown) => {
  set.delete(timer)
  Reflect.apply(forget, globalThis, [timer])
}
globalThis.clearInterval = globalThis.clearTimeout

process.on("SIGUSR2", () => console.log(`timers set: ${set.size}`))
