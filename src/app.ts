import { Elysia } from "elysia"
import { errorResponse, GatewayError, idHeaders, toGatewayError } from "./errors.ts"
import type { Gateway } from "./gateway.ts"
import { LedgerBusy, LedgerUnavailable } from "./ledger/entries.ts"
import { adminRoutes, type Operators } from "./routes/admin/admin.ts"
import { chatCompletions } from "./routes/chat-completions.ts"
import { operatorsConsole } from "./routes/console.ts"
import { isForPages, preflightAnswer, showTo } from "./routes/cors.ts"
import { countTokens } from "./routes/count-tokens.ts"
import { docs } from "./routes/docs.ts"
import { health } from "./routes/health.ts"
import { metrics } from "./routes/metrics.ts"
import { models } from "./routes/models.ts"
import { quotes } from "./routes/quote.ts"
import { receipts } from "./routes/receipts.ts"
import { requestId } from "./routes/request-id.ts"

export type { Operators }

/** Whom a listener serves: operators have one of their own where `admin` is configured (D39). */
export type Audience = "everyone" | "clients" | "operators"

/** Mounts the routes and the error printer; no listening, so that tests can use `app.handle()`. */
export function createApp(gateway: Gateway, operators: Operators, audience: Audience = "everyone") {
  const originsAt = (path: string) => {
    const { origins } = gateway.config.cors
    return origins.length > 0 && audience !== "operators" && isForPages(path) ? origins : []
  }
  const answered = (request: Request, route: string, status: number, code: string | null) => {
    gateway.metrics.answered(route, status, code)
    gateway.tracer?.answered(request, { route, method: request.method, status, code })
  }
  const app = new Elysia({ name: "tollgate", strictPath: true, handler: { standardHostname: false } })
    .onError(({ error, code, request, path, route }) => {
      const unknown = code === "NOT_FOUND"
      const fault = unknown
        ? unknownRoute(app.routes, gateway.config.vendors, request.method, path, audience)
        : faultOf(error)
      logFault(gateway.log, fault, requestId(request))
      const origins = originsAt(path)
      const answer =
        preflightAnswer(request, fault, origins, requestId(request)) ??
        errorResponse(fault, requestId(request))
      if (origins.length > 0) showTo(request, answer, origins)
      answered(request, unknown ? "unknown" : route, answer.status, fault.code)
      return answer
    })
    .onAfterHandle(({ request, response, path, route }) => {
      if (!(response instanceof Response)) return
      if (!response.headers.has("x-request-id")) {
        for (const [name, value] of Object.entries(idHeaders(requestId(request))))
          response.headers.set(name, value)
      }
      const origins = originsAt(path)
      if (origins.length > 0) showTo(request, response, origins)
      answered(request, route, response.status, null)
    })
  if (audience !== "operators")
    app
      .use(chatCompletions(gateway))
      .use(models(gateway))
      .use(countTokens(gateway))
      .use(quotes(gateway))
      .use(receipts(gateway))
  app.use(health(gateway))
  if (audience !== "clients") app.use(metrics(gateway.metrics)).use(adminRoutes(operators))
  if (audience !== "clients" && operators.admin_token !== null) app.use(operatorsConsole())
  return app.use(docs(() => gateway.config.models))
}

/** What went wrong, as an entry of the catalogue. The ledger has its own words, because it knows nothing of HTTP. */
function faultOf(error: unknown): GatewayError {
  if (error instanceof LedgerUnavailable)
    return new GatewayError("ledger_unavailable", { cause: error.message })
  return error instanceof LedgerBusy ? new GatewayError("overloaded") : toGatewayError(error)
}

/** What no answer says and an operator needs: why a request failed that was not itself at fault. */
function logFault(log: Gateway["log"], { code, status, detail }: GatewayError, request_id: string): void {
  const { cause } = detail
  if (code === "internal_error") log.error({ err: cause, request_id }, "request failed")
  else if (status >= 500 && typeof cause === "string") log.warn({ code, cause, request_id }, "request failed")
}

const NOT_OFFERED = ["/v1/messages", "/v1/responses", "/v1/embeddings"]

/** 405 with `allow` where the path is known under another method, else a 404 that says what there is (D15, D33). */
function unknownRoute(
  routes: readonly { readonly method: string; readonly path: string }[],
  vendors: readonly string[],
  method: string,
  path: string,
  audience: Audience,
): GatewayError {
  const known = routes.filter((route) => matches(route.path, path, vendors))
  const methods = new Set(known.map((route) => route.method))
  if (methods.has("GET")) methods.add("HEAD")
  if (methods.size > 0 && !methods.has(method)) {
    return new GatewayError("method_not_allowed", { headers: { allow: [...methods].sort().join(", ") } })
  }
  if (audience === "operators") {
    return new GatewayError("not_found", {
      message: "This path does not exist. Available: /admin and /metrics. Full reference: /docs.",
    })
  }
  if (!NOT_OFFERED.includes(path)) return new GatewayError("not_found")
  return new GatewayError("not_found", {
    message:
      "This operation is not supported. Supported: chat completions, the model list and token counting. Full reference: /docs.",
  })
}

/** Whether `path` fits a route's pattern, segment by segment; `:vendor` stands for the configured ones (D21), any other `:name` for one segment. */
function matches(pattern: string, path: string, vendors: readonly string[]): boolean {
  const wanted = pattern.split("/")
  const given = path.split("/")
  return (
    wanted.length === given.length &&
    wanted.every((segment, at) => {
      const value = given[at] ?? ""
      if (segment === ":vendor") return vendors.includes(value)
      return segment.startsWith(":") ? value !== "" : segment === value
    })
  )
}
