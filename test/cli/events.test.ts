import { afterAll, expect, test } from "bun:test"
import { ADMIN_TOKEN, chat, startGateway } from "../support/gateway.ts"
import { chatCompletion, json, startProvider, usage } from "../support/provider.ts"
import { type } from "./command.ts"

/** D96: `tollgate events --follow` prints what is there, and then each event as it comes. */

const provider = await startProvider()
provider.reply(json(200, chatCompletion("hello", { usage: usage(10, 5) })))
const gateway = await startGateway(provider)
afterAll(async () => {
  await gateway.stop()
  await provider.stop()
})

test("D96: --follow goes on, and --after begins after an event", async () => {
  const { key, id } = await gateway.account("10")
  const first = (await chat(gateway, key)).headers.get("x-request-id") ?? ""
  const env = { TOLLGATE_URL: gateway.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN }
  const { promise: second_seen, resolve } = Promise.withResolvers<void>()
  let second = ""
  const followed: string[] = []
  const url = new URL("../../src/cli/main.ts", import.meta.url).pathname
  const process_env = { ...process.env, ...env }
  const following = Bun.spawn([process.execPath, url, "events", "--follow"], {
    env: process_env,
    stdout: "pipe",
  })
  const reading = (async () => {
    let rest = ""
    for await (const chunk of following.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + chunk).split("\n")
      rest = lines.pop() ?? ""
      for (const line of lines) {
        const event = JSON.parse(line)
        followed.push(event.id)
        if (event.id === first) second = (await chat(gateway, key)).headers.get("x-request-id") ?? ""
        if (event.id === second) resolve()
      }
    }
  })()
  await second_seen
  following.kill()
  await reading
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
})
