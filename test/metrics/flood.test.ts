import { expect, test } from "bun:test"
import { testHarness } from "../http/harness.ts"
import { chat, until } from "../support/gateway.ts"
import { json } from "../support/provider.ts"
import { parseExposition, type Sample } from "./exposition.ts"

/** Requests of each kind; all of them together are 2,000. */
const EACH = 500
const AT_ONCE = 50
const METHODS: readonly [string, ...string[]] = [
  "GET",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
  "HEAD",
  "TRACE",
  "QUERY",
  "PROPFIND",
  "MKCOL",
]
const STATUSES = [400, 404, 418, 422, 429, 499] as const

const harness = await testHarness()
const key = (await harness.account("100")).key

let said = 0
const word = () => `made-up-${said++}-${crypto.randomUUID()}`
const picked = <T>(all: readonly [T, ...T[]]): T => all[said % all.length] ?? all[0]

const kinds: Readonly<Record<string, () => Promise<unknown>>> = {
  models: () => chat(harness.gateway, key, { model: word(), user: word() }),
  paths: () =>
    fetch(
      `${harness.gateway.url}/${picked(["", "v1/", "admin/accounts/", "docs/assets/"])}${word()}?${word()}`,
    ),
  methods: () => fetch(`${harness.gateway.url}/${word()}`, { method: picked(METHODS) }),
  "texts of a provider's errors": () =>
    chat(harness.gateway, key, { user: word() }, { headers: { ...headers(), [word()]: word() } }),
}

function headers(): Record<string, string> {
  return { authorization: `Bearer ${key}`, "content-type": "application/json" }
}

async function flood(ask: () => Promise<unknown>, requests: number): Promise<void> {
  let left = requests
  const ones = Array.from({ length: AT_ONCE }, async () => {
    while (left-- > 0) {
      const answer = await ask()
      if (answer instanceof Response) await answer.arrayBuffer()
    }
  })
  await Promise.all(ones)
}

/** On a busy machine a call is refused that waited too long for the database, and `chat` looks for the end of a slow one. */
const BUSY = /"code":"ledger_unavailable"|"status":"503"|"route":"\/admin\/calls\/:id"/

/** Every series there is, but those of the ledger's background tasks, which run when they are due, and of a busy machine. */
async function series(): Promise<string[]> {
  const text = await harness.gateway.metrics()
  const nameOf = ({ name, labels }: Sample) => `${name} ${JSON.stringify(labels)}`
  return parseExposition(text)
    .filter(({ name }) => !name.startsWith("tollgate_ledger_"))
    .flatMap(({ samples }) => samples.map(nameOf))
    .filter((name) => !BUSY.test(name))
    .sort()
}

test("D53 2,000 requests with made-up models, paths, methods and errors of a provider add no series", async () => {
  harness.provider.reply((exchange) => {
    const error = { message: word(), code: word(), type: word(), param: word() }
    return json(picked(STATUSES), { error }, { "retry-after": word() })(exchange)
  })
  for (const ask of Object.values(kinds)) await flood(ask, 100)
  await series()
  const before = await series()
  for (const ask of Object.values(kinds)) await flood(ask, EACH)
  const after = await until(series, (found) => found.length >= before.length)
  expect(after).toEqual(before)
  expect(after.filter((name) => name.includes("made-up"))).toEqual([])
})
