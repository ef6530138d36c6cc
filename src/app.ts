import { Elysia } from "elysia"
import { errorResponse, GatewayError, toGatewayError } from "./errors.ts"
import type { Gateway } from "./gateway.ts"
import { adminRoutes, type Operators } from "./routes/admin/admin.ts"
import { chatCompletions } from "./routes/chat-completions.ts"
import { countTokens } from "./routes/count-tokens.ts"
import { docs } from "./routes/docs.ts"
import { health } from "./routes/health.ts"
import { metrics } from "./routes/metrics.ts"
import { models } from "./routes/models.ts"
import { requestId } from "./routes/request-id.ts"

/** Mounts the routes and the error printer; no listening, so that tests can use `app.handle()`. */
export function createApp(gateway: Gateway, operators: Operators) {
  const app = new Elysia({ name: "tollgate", strictPath: true, handler: { standardHostname: false } })
    .onError(({ error, code, request, path }) => {
      const fault =
        code === "NOT_FOUND" ? unknownRoute(app.routes, request.method, path) : toGatewayError(error)
      if (fault.code === "internal_error") {
        gateway.log.error({ err: fault.detail.cause, request_id: requestId(request) }, "a request failed")
      }
      return errorResponse(fault, requestId(request))
    })
    .onAfterHandle(({ request, response }) => {
      if (response instanceof Response && !response.headers.has("x-request-id")) {
        response.headers.set("x-request-id", requestId(request))
        response.headers.set("request-id", requestId(request))
      }
    })
    .use(chatCompletions(gateway))
    .use(models(gateway))
    .use(countTokens(gateway))
    .use(health(gateway))
    .use(metrics(gateway.metrics))
    .use(adminRoutes(operators))
    .use(docs())
  return app
}

const NOT_OFFERED = ["/v1/messages", "/v1/responses", "/v1/embeddings"]

/** 405 with `allow` where the path is known under another method, else a 404 that says what there is (D15, D33). */
function unknownRoute(
  routes: readonly { readonly method: string; readonly path: string }[],
  method: string,
  path: string,
): GatewayError {
  const methods = new Set(routes.filter((route) => matches(route.path, path)).map((route) => route.method))
  if (methods.has("GET")) methods.add("HEAD")
  if (methods.size > 0 && !methods.has(method)) {
    return new GatewayError("method_not_allowed", { headers: { allow: [...methods].sort().join(", ") } })
  }
  const message = NOT_OFFERED.includes(path)
    ? "This operation is not offered yet; chat completions, models and token counts are, see /docs."
    : "There is nothing at this address; POST /v1/chat/completions, GET /v1/models and POST /v1/messages/count_tokens are here, and /docs describes them."
  return new GatewayError("not_found", { message })
}

/** Whether `path` fits a route's pattern, segment by segment; `:name` stands for any one segment. */
function matches(pattern: string, path: string): boolean {
  const wanted = pattern.split("/")
  const given = path.split("/")
  return (
    wanted.length === given.length &&
    wanted.every((segment, at) => segment === given[at] || (segment.startsWith(":") && given[at] !== ""))
  )
}
