import { heapStats } from "bun:jsc"

/** Memory of this process in the runtime's heap, without what a collection frees. */
export function usedBytes(): number {
  Bun.gc(true)
  return heapStats().heapSize
}
