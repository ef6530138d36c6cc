import { type AnyElysia, Elysia, ElysiaCustomStatusResponse } from "elysia"
import { GatewayError, idHeaders } from "../errors.ts"
import { requestId } from "../id.ts"
import { adminRoutes, type Operators } from "../routes/admin/admin.ts"
import { operatorsOnly } from "../routes/admin/authorize.ts"
import { endRefused } from "../routes/admin/change-log.ts"
import { chatCompletions } from "../routes/chat-completions.ts"
import { holdersPage, operatorsConsole } from "../routes/console.ts"
import { isForOperators, preflightAnswer, showTo } from "../routes/cors.ts"
import { embeddingCalls } from "../routes/embeddings.ts"
import { health, metrics } from "../routes/health.ts"
import { countTokens, messageCalls } from "../routes/messages.ts"
import { models } from "../routes/models.ts"
import { ownKeys } from "../routes/own-keys.ts"
import { quotes } from "../routes/quote.ts"
import { receipts } from "../routes/receipts.ts"
import { docs } from "../routes/reference/reference.ts"
import { RepeatedRefusals } from "../routes/repeated-refusals.ts"
import { refusal } from "../routes/request-body.ts"
import { responseCalls } from "../routes/responses.ts"
import { faultOf, ROUTING } from "../routes/routing.ts"
import { ownStatements } from "../routes/statements.ts"
import type { Gateway } from "./gateway.ts"

export type { Operators }

/** Whom a listener serves. Operators have their own listener if `admin` is configured (D39). */
export type Audience = "everyone" | "clients" | "operators"

const NO_ORIGINS: readonly string[] = []

/** In metrics and traces, the status of a request whose client left before its answer, as nginx has it. */
const CLIENT_LEFT = 499

/** Mounts the routes and prints errors. Does not listen, so that tests can use `app.handle()`. */
export function createApp(
  gateway: Gateway,
  operators: Operators,
  audience: Audience = "everyone",
  repeated = new RepeatedRefusals(),
) {
  const originsAt = (path: string) => {
    const { origins } = gateway.config.cors
    return origins.length > 0 && audience !== "operators" && !isForOperators(path) ? origins : NO_ORIGINS
  }
  const has_admin = audience !== "clients" && operators.admin_token !== null
  const answered = (request: Request, route: string, status: number, code: string | null) => {
    // A call that ended because its client left must not count as an error of the gateway.
    if (status >= 500 && request.signal.aborted) [status, code] = [CLIENT_LEFT, null]
    gateway.metrics.answered(route, status, code)
    gateway.tracer?.answered(request, { route, method: request.method, status, code })
  }
  const refuse = async (request: Request, fault: GatewayError, path: string, route: string) => {
    logFault(gateway.log, fault, requestId(request))
    const origins = originsAt(path)
    const answer =
      preflightAnswer(request, fault, origins, requestId(request)) ?? (await refusal(request, fault, gateway))
    await endRefused(request, answer.status)
    if (origins.length > 0) showTo(request, answer.headers, origins)
    answered(request, route, answer.status, fault.code)
    return answer
  }
  const app = new Elysia({ name: "tollgate", ...ROUTING })
    .onError(({ error, code, request, path, route, set }) => {
      // The status of the answer counts. With any other Elysia would make a second response of it: a quarter of the time of a refusal.
      set.status = 200
      const fault = code === "NOT_FOUND" ? unknownRoute(audience, path, has_admin) : faultOf(error)
      const label = code === "NOT_FOUND" || fault.code === "method_not_allowed" ? "unknown" : route
      repeated.add(request, fault, (other) => refuse(other, fault, path, label))
      return refuse(request, fault, path, label)
    })
    .onAfterHandle(({ request, responseValue, set, path, route }) => {
      const origins = originsAt(path)
      if (origins.length > 0)
        changeHeaders(responseValue, set, (headers) => showTo(request, headers, origins))
      answered(request, route, statusOf(responseValue), null)
    })
  // Calls answer with the request id themselves: to look for it in the headers of an answer would cost each 1 us.
  const others = new Elysia({ name: "others" }).onAfterHandle(({ request, responseValue, set }) => {
    changeHeaders(responseValue, set, (headers) => {
      for (const [name, value] of Object.entries(idHeaders(requestId(request)))) headers.set(name, value)
    })
  })
  if (audience !== "operators") {
    app.use(chatCompletions(gateway)).use(embeddingCalls(gateway)).use(responseCalls(gateway))
    app.use(messageCalls(gateway)).use(countTokens(gateway))
    others.use(models(gateway)).use(quotes(gateway)).use(receipts(gateway))
    others.use(ownKeys(gateway, operators)).use(ownStatements(gateway)).use(holdersPage())
  }
  others.use(health(gateway))
  const { admin_token } = operators
  const is_open = audience === "operators" && gateway.config.admin?.open_metrics === true
  if (audience !== "clients") {
    if (is_open) others.use(metrics(gateway.metrics, null))
    else if (admin_token !== null) others.use(metrics(gateway.metrics, operatorsOnly(operators, admin_token)))
    if (admin_token !== null) others.use(operatorsConsole(operators.identity_provider ?? null))
    others.use(adminRoutes(operators))
  }
  app.use(others.use(docs(() => gateway.config.models)))
  refuseOtherMethods(app, gateway)
  return app
}

/** The patterns of the paths for operators, which are served only in their normal form (D39). */
export function operatorPaths({ routes }: AnyElysia): string[] {
  return [...new Set(routes.map(({ path }) => path))].filter(isForOperators)
}

/** Changes the headers of an answer, which is a response or what Elysia makes one of. */
function changeHeaders(
  answer: unknown,
  set: { readonly headers: object },
  change: (headers: Headers) => void,
): void {
  if (answer instanceof Response) {
    change(answer.headers)
    return
  }
  const headers = new Headers()
  change(headers)
  Object.assign(set.headers, headers.toJSON())
}

function statusOf(answer: unknown): number {
  if (answer instanceof Response) return answer.status
  return answer instanceof ElysiaCustomStatusResponse ? answer.code : 200
}

/** Answers 405 for a known path with another method (D15), and 404 for the path of an unknown vendor (D21). */
function refuseOtherMethods(app: AnyElysia, gateway: Gateway): void {
  for (const [path, routes = []] of Map.groupBy(app.routes, (route) => route.path)) {
    const methods = new Set(routes.map(({ method }) => method))
    if (methods.has("GET")) methods.add("HEAD")
    const allow = [...methods].sort().join(", ")
    app.all(
      path,
      ({ params: { vendor } = {} }) => {
        if (vendor !== undefined && !gateway.config.vendors.includes(vendor)) {
          throw new GatewayError("not_found")
        }
        throw new GatewayError("method_not_allowed", { headers: { allow } })
      },
      { detail: { hide: true } },
    )
  }
}

/** Logs why a request failed that was not at fault, which no answer says. */
function logFault(log: Gateway["log"], { code, status, detail }: GatewayError, request_id: string): void {
  const { cause } = detail
  if (code === "internal_error") log.error({ err: cause, request_id }, "request failed")
  else if (status >= 500 && typeof cause === "string") log.warn({ code, cause, request_id }, "request failed")
}

const ADMIN_PATHS = "This path does not exist. The paths of /admin are in the reference: /docs."

/** A 404 that names the available paths (D33). */
function unknownRoute(audience: Audience, path: string, has_admin: boolean): GatewayError {
  if (has_admin && path.startsWith("/admin/")) return new GatewayError("not_found", { message: ADMIN_PATHS })
  if (audience === "operators") {
    return new GatewayError("not_found", {
      message: "This path does not exist. Available: /admin and /metrics. Full reference: /docs.",
    })
  }
  return new GatewayError("not_found")
}
