import { ChangeBody, EndedSessionsBody, OperatorBody, OperatorWithTokenBody } from "../wire/operators.ts"
import { roles } from "../wire/roles.ts"
import { type AdminContext, adminCommand, listAll, listCommand } from "./admin-command.ts"
import { UsageError } from "./cli-error.ts"
import type { Group } from "./command.ts"
import { columnsOf, counted } from "./screen.ts"
import { idNamed, timeAhead, timeOf } from "./typed-words.ts"

/** `tollgate operators`, people and programs with tokens of their own (D101), and `tollgate log`, their changes (D102). */

const OPERATOR = { "<operator>": "the name of the operator, or its id" } as const
const EXPIRES = {
  "--expires <TIME>": "when the token expires: 2027-12-31, an RFC 3339 time, or 90d",
} as const

const column = columnsOf(OperatorBody)

export const operators: Group = {
  summary: "Create, list, rotate and revoke the tokens of operators, and end sessions",
  commands: {
    list: listCommand({
      summary: "List operators, newest first",
      words: {},
      examples: { "tollgate operators": "with those that are revoked, and when each was last used" },
      entry: OperatorBody,
      columns: [
        ...column.each("name", "role", "expires_at", "last_used_at", "revoked_at"),
        column("id", { spare: 1 }),
      ],
      empty: "No operators yet. Create one: tollgate operators create NAME --role read",
      path: async () => ["/operators"],
    }),
    create: adminCommand({
      summary: "Create an operator and show its token once",
      words: {
        "<name>": "a person, or a program",
        "--role <ROLE>": ["what it may do; each role includes those before it (default: read)", roles],
        ...EXPIRES,
      },
      examples: {
        "tollgate operators create Ann --role billing --expires 90d": "for a person",
        "tollgate operators create prometheus": "for a program that only reads",
      },
      async run({ name, role = "read", expires }, context) {
        await showToken(context, "/operators", { name, role, expires_at: timeAhead("--expires", expires) })
      },
    }),
    rotate: adminCommand({
      summary: "Make a new token for an operator and show it once",
      details: "The token before, and the console's sessions that it opened, end immediately.",
      words: { ...OPERATOR, ...EXPIRES },
      examples: { "tollgate operators rotate Ann --expires 90d": "then give Ann the new token" },
      async run({ operator, expires }, context) {
        const id = await operatorId(context, operator)
        await showToken(context, `/operators/${id}/rotate`, { expires_at: timeAhead("--expires", expires) })
      },
    }),
    revoke: adminCommand({
      summary: "Revoke the token of an operator",
      words: OPERATOR,
      examples: { "tollgate operators revoke Ann": "from the next request on" },
      async run({ operator }, context) {
        await context.client.delete(`/operators/${await operatorId(context, operator)}`)
        context.show(null, () => `Revoked the token of ${operator}.`)
      },
    }),
    "end-sessions": adminCommand({
      summary: "End the console's sessions of an operator or of a person whom the OpenID provider signed in",
      details:
        "It does not prevent the next sign-in: revoke the token, or take the role away at the provider first.",
      words: { "<name>": "the name in the log, such as Ann, configured or oidc:ann@example.com" },
      examples: { "tollgate operators end-sessions oidc:ann@example.com": "from the next request on" },
      async run({ name }, context) {
        const found = await context.client.post("/sessions/end", { actor: name }, EndedSessionsBody)
        const { ended } = found
        context.show(found, () => `Ended ${counted(ended, "session")} of ${name}.`)
      },
    }),
  },
  standard: "list",
}

function operatorId(context: AdminContext, word: string): Promise<string> {
  const all = () => listAll(context, "/operators", {}, OperatorBody)
  return idNamed(word, "operator", "operators", all, UsageError)
}

async function showToken(context: AdminContext, path: string, body: object): Promise<void> {
  const made = await context.client.post(path, body, OperatorWithTokenBody)
  context.showCard(OperatorWithTokenBody, made, (line) =>
    line.each("token", "id", "name", "role", "expires_at"),
  )
  context.remark("Store the token now: it is not shown again.")
}

const changed = columnsOf(ChangeBody)

export const log = listCommand({
  summary: "List what operators changed, newest first",
  details: "--json has the request, and the resource before and after.",
  words: {
    "--actor <NAME>": "only changes by this operator",
    "--resource <ID>": "only changes of this account, key, budget, ...",
    "--since <TIME>": "only changes from this time on: 2026-11-21, an RFC 3339 time, or 24h (ago)",
  },
  examples: {
    "tollgate log --since 24h": "the changes of the last day",
    "tollgate log --actor Ann --all --json": "everything that Ann changed, with before and after",
  },
  entry: ChangeBody,
  columns: [
    changed("at", { as: "brief" }),
    changed("actor", { least: 8 }),
    changed("role", { spare: 3 }),
    changed("address", { spare: 4 }),
    changed("method"),
    changed("route", { of: ({ route }) => route.replace("/admin", ""), least: 12 }),
    changed("resource_id", { of: ({ resource_id, made_id }) => resource_id ?? made_id ?? "", spare: 1 }),
    changed("outcome"),
    changed("reason", { of: ({ reason }) => reason ?? "", spare: 2 }),
  ],
  empty: "No changes.",
  path: async ({ since, ...query }) => ["/log", { ...query, from: since && timeOf("--since", since) }],
})
