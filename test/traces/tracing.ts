import { readTracing, type Tracing } from "../../src/config/tracing.ts"

/** What the environment says of the traces that go to a collector; they go soon. */
export function tracing(
  { url }: { readonly url: string },
  env: Readonly<Record<string, string>> = {},
): Tracing {
  const read = readTracing({
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_HEADERS: "api-key=of-the-collector",
      OTEL_SERVICE_NAME: "edge",
      OTEL_RESOURCE_ATTRIBUTES: "team=acme",
      OTEL_BSP_SCHEDULE_DELAY: "5",
      ...env,
    },
    readFile: () => "",
  })
  if (read === null) throw new Error("no traces are kept")
  return read
}
