import { drizzle } from "drizzle-orm/postgres-js"
import postgres from "postgres"
import { Catalog, termsOf } from "../../src/admission/catalog.ts"
import { InFlight } from "../../src/admission/in-flight.ts"
import { KeyLoads } from "../../src/admission/key-loads.ts"
import { Memory } from "../../src/admission/memory.ts"
import { loadConfig } from "../../src/config/load.ts"
import type { OidcSettings } from "../../src/config/oidc.ts"
import { demoConfig } from "../../src/demo/demo-config.ts"
import { operatorLedger } from "../../src/ledger/sharded-operators.ts"
import { openLog } from "../../src/log.ts"
import { createMetrics } from "../../src/metrics/metrics.ts"
import { UsageWarnings } from "../../src/metrics/usage-warnings.ts"
import { IdentityProvider } from "../../src/oidc/identity-provider.ts"
import { createApp } from "../../src/service/app.ts"
import type { Gateway } from "../../src/service/gateway.ts"
import { CircuitBreakers } from "../../src/upstream/circuit-breakers.ts"
import { HiddenOutput } from "../../src/upstream/hidden-output.ts"

const unasked = () => {
  throw new Error("the reference asks neither the ledger nor a provider")
}

const SIGN_IN: OidcSettings = {
  ...{ issuer: "https://login.example.com", client_id: "tollgate", client_secret: null, name: null },
  ...{ public_url: "https://tollgate.example.com", scopes: ["openid"], role_claim: "groups", roles: {} },
  ...{ name_claim: "email", allowed: null, session_ms: 1 },
}

/** The whole application with nothing behind it: what the reference describes, it must not need. */
export function referenceApp(admin_token: string | null = "operator-token-of-the-tests") {
  const config = loadConfig(demoConfig("http://127.0.0.1:1"), { env: {}, readFile: unasked })
  const gateway: Gateway = {
    config,
    catalog: new Catalog(config.models, [termsOf(config.models).map((_, at) => at + 1)]),
    ledger: {
      standing: unasked,
      owner: unasked,
      forget: unasked,
      elsewhere: unasked,
      shard: () => ({
        labels: unasked,
        customerTerms: unasked,
        hold: unasked,
        end: unasked,
        spooled: unasked,
        attempted: unasked,
        recordEstimate: unasked,
        refused: () => {},
        keepAnswer: unasked,
        keptAnswer: unasked,
      }),
    },
    reports: {
      call: unasked,
      calls: unasked,
      refunded: unasked,
      archived: unasked,
      holder: unasked,
      keys: unasked,
      statement: unasked,
      budgets: unasked,
      usage: unasked,
    },
    breakers: new CircuitBreakers(),
    hidden_output: new HiddenOutput(),
    usage_warnings: new UsageWarnings(),
    in_flight: new InFlight(),
    key_loads: new KeyLoads(),
    memory: new Memory(1_000_000),
    metrics: createMetrics(),
    log: openLog("silent"),
    tracer: null,
    sockets: { keepOpen: unasked, restore: unasked, cut: unasked, address: unasked },
    notReady: () => null,
  }
  const database = drizzle(postgres("postgres://nobody@127.0.0.1:1/nothing"))
  return createApp(gateway, {
    admin_token,
    ledger: operatorLedger([{ name: "main", open: true, database }]),
    limits: config.limits,
    models: config.models,
    identity_provider: new IdentityProvider(SIGN_IN),
    upstreams: unasked,
  })
}
