import { type Static, Type } from "@sinclair/typebox"
import { EXPECTED } from "../wire/fault.ts"
import { roles } from "../wire/roles.ts"
import { LOOPBACK } from "./environment.ts"
import { type Decoded, duration, key, oneOf, text } from "./schema.ts"
import type { FaultReport } from "./values.ts"

/** Sign-in to the console by an OpenID provider (D103). */

const ISSUER = "an https URL without query and fragment (http only for this machine)"
const ORIGIN =
  "an https origin without a path (http only for this machine), such as https://tollgate.example.com"

const list = (expected: string) =>
  Type.Array(text(), { minItems: 1, uniqueItems: true, [EXPECTED]: expected })

export const OidcSection = Type.Object(
  {
    issuer: key(
      "The provider's issuer, exactly as its discovery document has it. The rest is discovered.",
      text({ [EXPECTED]: ISSUER }),
    ),
    client_id: key("The id of the client that is registered there.", text({ minLength: 1 })),
    client_secret: key(
      "Its secret; see References. Default: none, for a public client.",
      Type.Optional(text({ minLength: 1 })),
    ),
    public_url: key(
      "The address of the console in browsers. The client's redirect URI is this and `/admin/oidc/callback`.",
      text({ [EXPECTED]: ORIGIN }),
    ),
    name: key("The provider's name on the button. Default: the host of `issuer`.", Type.Optional(text())),
    scopes: key(
      "The scopes that are asked for.",
      Type.Array(text({ pattern: "^[!#-\\[\\]-~]+$" }), {
        default: ["openid", "email"],
        contains: Type.Literal("openid"),
        uniqueItems: true,
        [EXPECTED]: "a list of scopes with openid, such as [openid, email, groups]",
      }),
    ),
    role_claim: key(
      "The claim whose values have roles: its name, or a path such as `realm_access.roles`. An `email` counts only if it is verified.",
      text({ default: "groups" }),
    ),
    roles: key(
      "The role for each value of the claim. Of several the highest counts; without any, the sign-in is refused.",
      Type.Record(Type.String(), oneOf(roles), {
        minProperties: 1,
        [EXPECTED]: `a mapping from values of the claim to ${roles.join(", ")}`,
      }),
    ),
    name_claim: key(
      "The claim that names the person in the log. Without it, or if an `email` is not verified, `sub` and the host of `issuer` do.",
      text({ default: "email" }),
    ),
    allowed: key(
      "The only persons who may sign in, by the name that the log has after `oidc:`. Default: everyone with a role.",
      Type.Optional(list("a list of names, such as [ann@example.com]")),
    ),
    session: key("When a session ends, at most 24h.", duration("8h")),
  },
  { additionalProperties: false, [EXPECTED]: "a mapping of issuer, client_id, public_url and roles" },
)

export type OidcSettings = Decoded<Static<typeof OidcSection>>

const DAY_MS = 86_400_000

/** Reports what the schema cannot see: addresses without TLS, and a session that lasts too long. */
export function checkOidc({ issuer, public_url, session_ms }: OidcSettings, report: FaultReport): void {
  if (!isSafe(issuer) || /[?#]/.test(issuer)) report("issuer", ISSUER)
  if (!isSafe(public_url) || new URL(public_url).origin !== public_url) report("public_url", ORIGIN)
  if (session_ms > DAY_MS) report("session", "at most 24h, because a role is read when a session begins")
}

/** True for https, and for http to this machine. */
function isSafe(url: string): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname, username, password } = new URL(url)
  if (username !== "" || password !== "") return false
  return protocol === "https:" || (protocol === "http:" && LOOPBACK.test(hostname.replace(/^\[|\]$/g, "")))
}
