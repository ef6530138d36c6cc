import { expect, test } from "bun:test"
import { runProgram } from "../../src/cli/program.ts"
import { ADMIN_TOKEN, chat } from "../support/gateway.ts"
import { HELLO } from "../support/provider.ts"
import { testGateway } from "../support/test-gateway.ts"
import { silent, type } from "./command.ts"

/** D96: `tollgate events --follow` prints what is there, and then each event as it comes. */

const { gateway } = await testGateway({}, HELLO)

/** Ends the command when its reader has seen enough. */
class Enough extends Error {}

test("D96: --follow goes on, and --after begins after an event", async () => {
  const { key, id } = await gateway.account("10")
  const first = (await chat(gateway, key)).headers.get("x-request-id") ?? ""
  const env = { TOLLGATE_URL: gateway.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN }
  const followed: string[] = []
  let next: ReturnType<typeof chat> | null = null
  const following = runProgram(["events", "--follow"], {
    ...silent,
    env,
    print(text) {
      const event = JSON.parse(text)
      followed.push(event.id)
      if (event.id === first) next = chat(gateway, key)
      else if (next !== null && event.type === "tollgate.call.ended") throw new Enough()
    },
  })
  await expect(following).rejects.toBeInstanceOf(Enough)
  const second = (await (next ?? chat(gateway, key))).headers.get("x-request-id") ?? ""
  expect(followed.slice(-2)).toEqual([first, second])
  const listed = await type(["events", "--json"], env)
  const { data } = JSON.parse(listed.out)
  expect(data.map((event: { id: string }) => event.id)).toEqual(followed)
  const cursor = data.at(-2).cursor
  const after = await type(["events", "--after", cursor, "--json"], env)
  expect(JSON.parse(after.out).data.map((event: { id: string }) => event.id)).toEqual([second])
  const shown = await type(["events"], env)
  expect(shown.out).toContain(id)
  expect(await type(["events", "--after", cursor, "--from", "1h"], env)).toMatchObject({ code: 2 })
  const added = await type(["events", "--types", "tollgate.credit.added"], env)
  expect(added.out).toMatch(/KIND.*tollgate\.credit\.added.* payment /s)
  const past = await type(["events", "--to", "1h"], env)
  expect(past.out + past.err).toContain("No events found.")
  expect(await type(["events", "--to", "1h", "--follow"], env)).toMatchObject({ code: 2 })
})
