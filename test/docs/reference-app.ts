import { drizzle } from "drizzle-orm/postgres-js"
import postgres from "postgres"
import { Catalog, termsOf } from "../../src/admission/catalog.ts"
import { loadConfig } from "../../src/config/load.ts"
import type { OidcSettings } from "../../src/config/oidc.ts"
import { demoConfig } from "../../src/demo/demo-config.ts"
import { operatorLedger } from "../../src/ledger/operators.ts"
import { identityProvider } from "../../src/oidc/identity-provider.ts"
import { createApp } from "../../src/service/app.ts"
import type { Gateway } from "../../src/service/gateway.ts"
import { idleGateway } from "../support/idle-gateway.ts"

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
    ...idleGateway(),
  }
  const database = drizzle(postgres("postgres://nobody@127.0.0.1:1/nothing"))
  return createApp(gateway, {
    admin_token,
    ledger: operatorLedger([{ name: "main", open: true, database }]),
    limits: config.limits,
    memory: gateway.memory,
    models: config.models,
    identity_provider: identityProvider(SIGN_IN),
    upstreams: unasked,
  })
}
