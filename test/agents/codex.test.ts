import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseUsd } from "../../src/money.ts"
import { type Cell, openStage, type Stage } from "../clients/stage.ts"
import { json, type Script } from "../support/provider.ts"
import {
  callEvents,
  callItem,
  created,
  last,
  reasoningEvents,
  reasoningItem,
  responseStream,
  responseUsage,
  textEvents,
  textItem,
} from "../support/responses.ts"

/**
 * Codex itself, as it comes, in front of a gateway and a provider that a test scripts. `bun run agents` installs it; it is too
 * large for every installation (400 MB).
 */

const PROGRAM = join(import.meta.dir, "node_modules/@openai/codex/bin/codex.js")
const installed = await Bun.file(PROGRAM).exists()

const TURN_MS = 60_000
/** Its own default is 5. */
const STREAM_RETRIES = 2

let stage: Stage
beforeAll(async () => {
  stage = await openStage(10)
})
afterAll(() => stage.close())

const homes: string[] = []
afterEach(async () => {
  for (const home of homes.splice(0)) await rm(home, { recursive: true, force: true })
})

/** One turn of Codex; `settings` are further lines of its configuration. */
async function turn(cell: Cell, settings = 'web_search = "disabled"') {
  // It refuses to keep its helpers below the temporary folder, and works without them.
  const home = await mkdtemp(join(tmpdir(), "tollgate-codex-"))
  homes.push(home)
  const work = join(home, "work")
  await mkdir(work)
  await writeFile(
    join(home, "config.toml"),
    `model = "${cell.model}"
model_provider = "tollgate"
check_for_update_on_startup = false
${settings}
[analytics]
enabled = false
[model_providers.tollgate]
name = "Tollgate"
base_url = "${cell.url}/v1"
env_key = "TOLLGATE_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = ${STREAM_RETRIES}
`,
  )
  const codex = Bun.spawn(
    [
      process.execPath,
      PROGRAM,
      "exec",
      "--skip-git-repo-check",
      "--dangerously-bypass-approvals-and-sandbox",
      "What does the file say?",
    ],
    {
      cwd: work,
      // Nothing leads away from this machine.
      env: {
        PATH: process.env.PATH,
        HOME: home,
        CODEX_HOME: home,
        TOLLGATE_KEY: cell.key,
        HTTPS_PROXY: "http://127.0.0.1:9",
        NO_PROXY: "127.0.0.1",
      },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    },
  )
  const [stdout, stderr] = await Promise.all([
    new Response(codex.stdout).text(),
    new Response(codex.stderr).text(),
  ])
  return { code: await codex.exited, stdout, stderr }
}

/** A stream that calls its shell, and one that says the last words. */
const shell = callItem("exec_command", JSON.stringify({ cmd: "echo it-says-$((40 + 2))" }))
const USAGES = [responseUsage(9_000, 60, 4_000), responseUsage(9_100, 20, 9_000)] as const
const WITH_TOOL: readonly Script[] = [
  responseStream([
    created,
    ...reasoningEvents(["Look ", "first."]),
    ...callEvents(shell.name, [shell.arguments], 1),
    last([reasoningItem("Look first."), shell], { usage: USAGES[0] }),
  ]),
  responseStream([
    created,
    ...textEvents(["It says ", "42."]),
    last([textItem("It says 42.")], { usage: USAGES[1] }),
  ]),
]

describe.skipIf(!installed)("Codex", () => {
  test(
    "finishes a turn that uses its shell, and the receipts add up to what the provider counted (D66)",
    async () => {
      const cell = await stage.cell()
      cell.answers(...WITH_TOOL)
      const { code, stdout, stderr } = await turn(cell)
      expect({ code, stdout: stdout.trim(), stderr: code === 0 ? "" : stderr }).toEqual({
        code: 0,
        stdout: "It says 42.",
        stderr: "",
      })
      expect(cell.exchanges).toHaveLength(2)
      expect(cell.exchanges[1]?.request.body).toContain("it-says-42")
      const calls = await cell.calls()
      expect(calls).toMatchObject(
        USAGES.map((usage) => ({
          operation: "responses",
          basis: "usage",
          ending: "completed",
          usage: {
            prompt_tokens: usage.input_tokens,
            cached_tokens: usage.input_tokens_details.cached_tokens,
            completion_tokens: usage.output_tokens,
          },
        })),
      )
      const { balance } = await cell.gateway.balance(cell.account_id)
      const spent = calls.reduce((sum, { charge }) => sum + (parseUsd(String(charge)) ?? 0n), 0n)
      expect(spent).toBe(5_100n * 1_000n + 13_000n * 100n + 80n * 4_000n)
      expect(parseUsd(balance)).toBe(1_000_000_000n - spent)
    },
    TURN_MS,
  )

  test(
    "shows a 402 as it is; it sends the request again like a broken stream, which makes no call and costs nothing",
    async () => {
      const cell = await stage.cell("0.001")
      const { code, stderr } = await turn(cell)
      expect(code).not.toBe(0)
      expect(stderr).toMatch(/This call needs a hold of 0\.\d+ USD, but only 0\.001 USD is available/)
      expect(cell.door.requests_ms).toHaveLength(1 + STREAM_RETRIES)
      expect(cell.exchanges).toEqual([])
      expect(await cell.calls()).toEqual([])
    },
    TURN_MS,
  )

  test(
    "shows a search without a price as what it is, once (D61)",
    async () => {
      const cell = await stage.cell()
      const { code, stderr } = await turn(cell, "")
      expect(code).not.toBe(0)
      expect(stderr).toContain("has no price for web searches")
      expect(cell.door.requests_ms).toHaveLength(1)
    },
    TURN_MS,
  )

  test(
    "sends a broken stream again: each is a call of its own, charged for what was said (D66)",
    async () => {
      const cell = await stage.cell()
      const broken = responseStream([created, ...textEvents(["x".repeat(40)]).slice(0, 3)], {
        ending: "reset",
      })
      cell.answers(
        broken,
        broken,
        responseStream([created, ...textEvents(["Done."]), last([textItem("Done.")], { usage: USAGES[1] })]),
      )
      const { code, stdout } = await turn(cell)
      expect({ code, stdout: stdout.trim() }).toEqual({ code: 0, stdout: "Done." })
      expect(cell.door.requests_ms).toHaveLength(1 + STREAM_RETRIES)
      expect(await cell.calls()).toMatchObject([
        { basis: "estimate", ending: "upstream_lost", charge: "0.00004" },
        { basis: "estimate", ending: "upstream_lost", charge: "0.00004" },
        { basis: "usage", ending: "completed", charge: "0.00108" },
      ])
    },
    TURN_MS,
  )

  test(
    "stops at a failure that it knows, which reaches it even before any output (D66)",
    async () => {
      const cell = await stage.cell()
      const error = { code: "context_length_exceeded", message: "Too long." }
      cell.answers(
        responseStream([created, last([], { status: "failed", usage: null, error }, "response.failed")]),
      )
      const { code } = await turn(cell)
      expect(code).not.toBe(0)
      expect(cell.door.requests_ms).toHaveLength(1)
      expect(await cell.calls()).toMatchObject([
        { state: "released", charge: "0", failure: "upstream_error" },
      ])
    },
    TURN_MS,
  )

  test(
    "sends a request again after a 5xx, which cost nothing",
    async () => {
      const cell = await stage.cell()
      cell.answers(json(500, {}), ...WITH_TOOL)
      const { code, stdout } = await turn(cell)
      expect({ code, stdout: stdout.trim() }).toEqual({ code: 0, stdout: "It says 42." })
      expect(await cell.calls()).toMatchObject([
        { state: "released", charge: "0", failure: "upstream_error" },
        { state: "settled" },
        { state: "settled" },
      ])
    },
    TURN_MS,
  )
})
