import { hostname } from "node:os"
import manifest from "../../package.json" with { type: "json" }
import type { SpanOrigin } from "./otlp.ts"

/** The same in the traces and the metrics of a process. */
const INSTANCE_ID = crypto.randomUUID()

/** Attributes of the process, which the environment's `resource` overrides. `worker` is null without worker processes. */
export function originOf(resource: Readonly<Record<string, string>>, worker: number | null): SpanOrigin {
  const { name, version } = manifest
  return {
    scope: { name, version },
    resource: {
      "service.version": version,
      "service.instance.id": INSTANCE_ID,
      "host.name": hostname(),
      "process.pid": process.pid,
      "process.runtime.name": "bun",
      "process.runtime.version": Bun.version,
      "tollgate.worker": worker,
      ...resource,
    },
  }
}
