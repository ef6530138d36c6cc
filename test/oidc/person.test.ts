import { describe, expect, test } from "bun:test"
import { loadConfig } from "../../src/config/load.ts"
import { personOf } from "../../src/oidc/person.ts"
import type { Role } from "../../src/wire/roles.ts"
import { configFor } from "../support/gateway.ts"

/** Who a person is by the claims (D103), and the settings that decide it. */

const OIDC = {
  issuer: "https://login.example.com/realms/main",
  client_id: "tollgate",
  client_secret: "secret-canary",
  public_url: "https://tollgate.example.com",
  roles: { staff: "read", helpers: "support", owners: "admin" },
}

const load = (admin: object) =>
  loadConfig(JSON.stringify(configFor("http://127.0.0.1:1", { admin })), { env: {}, readFile: () => "" })

function person(claims: object, changes: object = {}) {
  const { oidc } = load({ oidc: { ...OIDC, ...changes } })
  return oidc && personOf({ sub: "42", email: "ann@example.com", email_verified: true, ...claims }, oidc)
}

const ANN = "oidc:ann@example.com"

test.each<[string, object, object, Role | null]>([
  ["one value", { groups: ["other", "helpers"] }, {}, "support"],
  ["the highest of several", { groups: ["owners", "staff"] }, {}, "admin"],
  ["a text", { groups: "staff" }, {}, "read"],
  ["no claim", {}, {}, null],
  ["no value with a role", { groups: ["other", "STAFF"] }, {}, null],
  ["a name of every object", { groups: ["constructor", "__proto__", "toString"] }, {}, null],
  ["other types", { groups: [1, null, { staff: true }, ["owners"]] }, {}, null],
  ["a path", { realm_access: { roles: ["owners"] } }, { role_claim: "realm_access.roles" }, "admin"],
  ["a name with dots", { "https://x.y/r": "staff" }, { role_claim: "https://x.y/r" }, "read"],
  ["a verified email", {}, { role_claim: "email", roles: { "ann@example.com": "billing" } }, "billing"],
  [
    "an email that is not verified",
    { email_verified: false },
    { role_claim: "email", roles: { "ann@example.com": "billing" } },
    null,
  ],
  ["a name that is allowed", { groups: "staff" }, { allowed: ["bob", "ann@example.com"] }, "read"],
  ["a name that is not allowed", { groups: "owners" }, { allowed: ["bob"] }, null],
])("D103 the role of %s", (_, claims, changes, role) => {
  expect(person(claims, changes)?.role ?? null).toEqual(role)
})

test.each<[string, object, object, string | null]>([
  ["a verified email", {}, {}, ANN],
  ["verified as a text", { email_verified: "true" }, {}, ANN],
  ["an email that is not verified", { email_verified: undefined }, {}, "oidc:42 (login.example.com)"],
  ["another claim", { upn: "ann@corp" }, { name_claim: "upn" }, "oidc:ann@corp"],
  ["a line break", { upn: "ann\nb" }, { name_claim: "upn" }, null],
  ["a change of direction", { upn: "ann\u202e" }, { name_claim: "upn" }, null],
  ["too long a name", { upn: "x".repeat(201) }, { name_claim: "upn" }, null],
])("D103 the name of %s", (_, claims, changes, name) => {
  expect(person(claims, changes)?.name ?? null).toBe(name)
})

describe("the settings", () => {
  test("D103 share the clients' listener, or have one of their own", () => {
    expect(load({ oidc: OIDC })).toMatchObject({ admin: null, oidc: { session_ms: 28_800_000 } })
    const apart = load({ port: 9090, oidc: OIDC })
    expect(apart).toMatchObject({ admin: { host: "127.0.0.1", port: 9090, open_metrics: false } })
    expect(load({ port: 9090 }).oidc).toBeNull()
  })

  test.each<[object, string]>([
    [{ issuer: "http://login.example.com" }, "admin.oidc.issuer"],
    [{ issuer: "https://login.example.com/?x" }, "admin.oidc.issuer"],
    [{ issuer: "https://user:secret@login.example.com" }, "admin.oidc.issuer"],
    [{ public_url: "http://tollgate.example.com" }, "admin.oidc.public_url"],
    [{ public_url: "https://tollgate.example.com/" }, "admin.oidc.public_url"],
    [{ public_url: "tollgate.example.com" }, "admin.oidc.public_url"],
    [{ scopes: ["email"] }, "admin.oidc.scopes"],
    [{ roles: {} }, "admin.oidc.roles"],
    [{ roles: { staff: "owner" } }, "admin.oidc.roles.staff"],
    [{ session: "25h" }, "admin.oidc.session"],
    [{ allowed: [] }, "admin.oidc.allowed"],
    [{ secret: "x" }, "admin.oidc.secret"],
  ])("D103 %j is refused", (changes, path) => {
    expect(() => load({ oidc: { ...OIDC, ...changes } })).toThrow(`${path}: expected`)
  })

  test("D103 plain http is for this machine; a listener needs a port", () => {
    for (const host of ["127.0.0.1:1", "localhost:1", "[::1]:1"])
      expect(
        load({ oidc: { ...OIDC, issuer: `http://${host}`, public_url: `http://${host}` } }).oidc,
      ).not.toBeNull()
    expect(() => load({})).toThrow("admin.port: expected an integer")
    expect(() => load({ open_metrics: true, oidc: OIDC })).toThrow("admin.port: expected an integer")
  })
})
