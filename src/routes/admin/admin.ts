import { Elysia } from "elysia"
import { inFormat } from "../list-formats.ts"
import { jsonBody } from "../request-body.ts"
import { forbidStoring, readQuery } from "../routing.ts"
import { accountRoutes } from "./accounts.ts"
import { auditRoutes } from "./audit.ts"
import { checkRole } from "./authorize.ts"
import { budgetRoutes } from "./budgets.ts"
import { callRoutes } from "./calls.ts"
import { beginning, ending, keepBody } from "./change-log.ts"
import { creditRoutes } from "./credits.ts"
import { customerPriceRoutes } from "./customer-prices.ts"
import { estimateRoutes } from "./estimates.ts"
import { eventRoutes } from "./events.ts"
import { keyRoutes } from "./keys.ts"
import { ledgerCheckRoutes } from "./ledger-checks.ts"
import { operatorRoutes } from "./named-operators.ts"
import { madeAnswer, type Operators } from "./operators.ts"
import { priceListRoutes } from "./price-lists.ts"
import { reconciliationRoutes } from "./reconciliation.ts"
import { reportRoutes } from "./reports.ts"
import { rightsFor } from "./roles.ts"
import { oidcRoutes, operatorsOrConsole, sessionRoutes } from "./session.ts"
import { sinkRoutes } from "./sinks.ts"
import { statementRoutes } from "./statements.ts"
import { upstreamRoutes } from "./upstreams.ts"

export type { Operators }

/** `/admin`, for operators: credentials and role before body and parameters (D30). None without a token. */
export function adminRoutes(operators: Operators) {
  const admin = new Elysia({ name: "admin", prefix: "/admin" })
  const { admin_token } = operators
  if (admin_token === null) return admin
  const known = operatorsOrConsole(operators, admin_token)
  const guard = async ({ request, route }: { readonly request: Request; readonly route: string }) => {
    await known({ request })
    checkRole(request, rightsFor(request.method, route).role)
  }
  const { identity_provider = null } = operators
  if (identity_provider !== null) admin.use(oidcRoutes(operators, admin_token, identity_provider))
  return admin
    .use(sessionRoutes(operators, admin_token))
    .onParse(guard)
    .onParse(async ({ request, params: { id } = {} }) => {
      const body = await jsonBody(request, id, operators.limits, null)
      keepBody(request, body, admin_token)
      return body
    })
    .onTransform(guard)
    .derive(readQuery)
    .onBeforeHandle(beginning(operators))
    .onAfterHandle(ending)
    .onAfterHandle(forbidStoring)
    .onAfterHandle(async ({ request, responseValue }) =>
      inFormat(request, responseValue, () => madeAnswer(operators)),
    )
    .use(operatorRoutes(operators))
    .use(accountRoutes(operators))
    .use(creditRoutes(operators))
    .use(keyRoutes(operators))
    .use(budgetRoutes(operators))
    .use(customerPriceRoutes(operators))
    .use(priceListRoutes(operators))
    .use(callRoutes(operators))
    .use(eventRoutes(operators))
    .use(sinkRoutes(operators))
    .use(reportRoutes(operators))
    .use(statementRoutes(operators))
    .use(estimateRoutes(operators))
    .use(reconciliationRoutes(operators))
    .use(upstreamRoutes(operators))
    .use(auditRoutes(operators))
    .use(ledgerCheckRoutes(operators))
}
