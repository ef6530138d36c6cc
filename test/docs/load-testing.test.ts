import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { Workplace } from "../process/workplace.ts"
import { chatModel } from "../support/gateway.ts"
import { chatCompletion, chatWords, json, sse, usage } from "../support/provider.ts"
import { textOf } from "../support/repository.ts"
import { testGateway } from "../support/test-gateway.ts"
import type { Block } from "./blocks.ts"
import { blocksToRun, programsOf } from "./left-out.ts"
import { Terminal } from "./shell.ts"

/** docs/load-testing.md: each tool that this machine has is run as the page says, for a second; the ledger has its calls. */

const PAGE = "docs/load-testing.md"
const [prepare] = blocksToRun(PAGE)
if (prepare === undefined) throw new Error(`${PAGE} has no block`)
const commands = programsOf(PAGE).filter((block) => block.line !== prepare.line)

/** The program of a block, and what its report says if a call failed. */
const FAILED: Readonly<Record<string, RegExp>> = {
  hey: /Error distribution|\[[345]\d\d\]\s+\d+ responses/,
  ab: /Failed requests: +[1-9]|Non-2xx/,
  wrk: /Non-2xx/,
  oha: /\[[345]\d\d\]\s+\d+ responses/,
  vegeta: /\b[345]\d\d:\d/,
  k6: /charged[^\n]*\n[^\n]*✗/,
  guidellm: /Traceback|ERROR|errored=[1-9]/,
  aiperf: /Traceback|ERROR|Error Rate \(%\) │ +(?:[1-9]|0\.(?!00))/,
}
/** These tools fetch a tokenizer from the network, which tests do not use: the folder of one, if there is one. */
const tokenizer = process.env.TOKENIZER
const NEED_TOKENIZER = ["guidellm", "aiperf"]
/** Setting up takes them a minute on a busy machine. */
const TOOL_MS = 300_000

const toolOf = ({ text }: Block): string =>
  Object.keys(FAILED).find((name) => new Set(text.split(/\s+/)).has(name)) ?? "none"

const told = { usage: usage(10, 5) }
const [whole, stream] = [json(200, chatCompletion("hello", told)), sse(chatWords("hel", "lo"), told)]
const { gateway } = await testGateway({ models: [chatModel("demo-small")] }, (exchange) =>
  (exchange.request.body.includes('"stream":true') ? stream : whole)(exchange),
)
const account = await gateway.account("10")
const place = new Workplace()
let terminal: Terminal

beforeAll(async () => {
  const words = { "tg_live_…": account.key, "10s": "1s", "-t 10 ": "-t 1 ", "seconds=10": "seconds=1" }
  terminal = new Terminal({
    folder: place.folder,
    url: gateway.url,
    words: { ...words, gpt2: tokenizer ?? "" },
  })
  await terminal.play(prepare)
})
afterAll(async () => {
  await terminal.close()
  await place.clear()
})

describe("docs/load-testing.md", () => {
  test("has one command for each tool", () => {
    expect(commands.map(toolOf)).toEqual(Object.keys(FAILED))
  })

  for (const block of commands) {
    const tool = toolOf(block)
    const is_here = Bun.which(tool) !== null && (!NEED_TOKENIZER.includes(tool) || tokenizer !== undefined)
    test.skipIf(!is_here)(
      `${tool} runs as it stands, and no call fails`,
      async () => {
        const latest = async () => (await gateway.calls(`?account=${account.id}&limit=1`))[0]?.id
        const before = await latest()
        expect(await terminal.play(block)).not.toMatch(FAILED[tool] ?? /./)
        expect(await latest()).not.toBe(before)
      },
      TOOL_MS,
    )
  }

  test("names only parts of the program that there are, and its request is a call", async () => {
    const body = /'(\{.*\})'/.exec(prepare.text)?.[1] ?? "none"
    const headers = { authorization: `Bearer ${account.key}`, "content-type": "application/json" }
    const asked = [
      fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers, body }),
      // As guidellm asks, first without and then with a key.
      fetch(`${gateway.url}/health`),
      fetch(`${gateway.url}/v1/models`, { headers }),
    ]
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200, 200])
    const script = /call\.js <<'END'\n([\s\S]*?)\nEND/.exec(textOf(PAGE))
    const { exports, imports } = new Bun.Transpiler({ loader: "js" }).scan(script?.[1] ?? "")
    expect([exports, imports.map(({ path }) => path)]).toEqual([
      ["default", "options"],
      ["k6", "k6/http"],
    ])
  })
})
