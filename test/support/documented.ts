import statuses from "../fixtures/statuses.json"

/** The statuses that the OpenAPI document has, by operation: `GET /admin/audit`. test/docs/document.test.ts compares them. */
const operations = Object.entries(statuses).map(([name, listed]) => {
  const [method = "", path = ""] = name.split(" ")
  return {
    method,
    path,
    pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`),
    documented: listed.split(" "),
  }
})

/** Of answers to a method that the path does not have. */
const NO_SUCH_METHOD = "405"
/** Nobody gets it. */
const CLIENT_LEFT = "499"

/** `default` describes the errors of providers. */
function has(documented: readonly string[], status: string): boolean {
  return documented.includes(status) || (status >= "400" && documented.includes("default"))
}

/** Whether the document has the status for a request; what it has no operation for, it does not describe. */
export function isDocumented(method: string, path: string, status: number): boolean {
  const found = operations.find((one) => one.method === method && one.pattern.test(path))
  return found === undefined || has(found.documented, String(status))
}

/** The answers that a gateway gave, as `route status`, which the document does not have for any method of the route. */
export function undocumentedIn(metrics: string): string[] {
  return [...metrics.matchAll(/^tollgate_requests_total\{route="([^"]+)",status="(\d+)"/gm)].flatMap(
    ([, route = "", status = ""]) => {
      const path = route.replaceAll(/:(\w+)/g, "{$1}")
      const known = operations.filter((operation) => operation.path === path)
      const is_told = known.some(({ documented }) => has(documented, status))
      return known.length === 0 || is_told || status === NO_SUCH_METHOD || status === CLIENT_LEFT
        ? []
        : [`${path} ${status}`]
    },
  )
}
