import { expect, test } from "bun:test"
import { AI } from "./ai.ts"
import { ANTHROPIC } from "./anthropic.ts"
import { type Client, FIELDS } from "./client.ts"
import { CURL } from "./curl.ts"
import { FAULTS, obeyRetryAfter, suffer, titleOf } from "./faults.ts"
import { LANGCHAIN } from "./langchain.ts"
import { Matrix } from "./matrix.ts"
import { OPENAI } from "./openai.ts"
import { pageWith, readPage, WRITE_VARIABLE, writePage } from "./page.ts"
import { PLAYS } from "./plays.ts"
import { testStage } from "./stage.ts"

/** Real clients, as they come, in front of one gateway: what each of them does, and what it repeats by itself. */

const CLIENTS: readonly Client[] = [OPENAI, AI, LANGCHAIN, ANTHROPIC, CURL]

const stage = await testStage(CLIENTS.length * (PLAYS.length + FAULTS.length + 1))

const columns = CLIENTS.map(({ name }) => name)
const does = new Matrix(
  PLAYS.map(({ name }) => name),
  columns,
)
const BY_DEFAULT = "how often by default"
const RETRY_AFTER = "`Retry-After` of a 429"
const repeats = new Matrix([BY_DEFAULT, ...FAULTS.map(titleOf), RETRY_AFTER], columns)
const shows = new Matrix(FIELDS, columns)
const classes = new Matrix([...new Set(FAULTS.map(({ status }) => String(status)))], columns)

for (const client of CLIENTS) {
  const { name, lacks, family } = client
  const testOf = Bun.which("curl") === null && client === CURL ? test.skip : test.concurrent
  repeats.note(BY_DEFAULT, name, client.repeats.by_default)
  for (const field of FIELDS) shows.note(field, name, `\`${client.shows[field]}\``)
  for (const play of PLAYS) {
    if (play.needs in lacks) does.note(play.name, name, "—")
    else
      testOf(`${name}: ${play.name}`, async () => {
        const cell = await stage.cell()
        does.note(play.name, name, await play.run(client.connect(cell), cell))
      })
  }
  for (const fault of FAULTS) {
    const title = titleOf(fault)
    if (fault.chat_only && family !== "chat") repeats.note(title, name, "—")
    else
      testOf(`${name}: ${title} (D15, D16)`, async () => {
        const { again, class_name } = await suffer(client, fault, await stage.cell(fault.usd))
        repeats.note(title, name, again)
        classes.note(String(fault.status), name, class_name)
      })
  }
  testOf(`${name}: ${RETRY_AFTER} (D17)`, async () => {
    repeats.note(RETRY_AFTER, name, await obeyRetryAfter(client, await stage.cell()))
  })
}

test.skipIf(Bun.which("curl") === null)("docs/clients.md shows what was seen here", async () => {
  const reasons = Map.groupBy(
    CLIENTS.flatMap(({ name, lacks }) =>
      [...new Set(Object.values(lacks))].map((reason) => ({ name, reason })),
    ),
    ({ reason }) => reason,
  )
  const lacking = [...reasons].map(
    ([reason, clients]) => `- ${clients.map(({ name }) => name).join(", ")}: ${reason}.`,
  )
  const page = await readPage()
  const seen = pageWith(
    page,
    [
      "### What works",
      `${does}`,
      "Where a cell is —:",
      lacking.join("\n"),
      "### What a client repeats by itself",
      `${repeats}`,
      "### Where an error shows what",
      `${shows}`,
      "### Which class an error has",
      `${classes}`,
    ].join("\n\n"),
  )
  if (process.env[WRITE_VARIABLE] !== undefined) await writePage(seen)
  else expect(page).toBe(seen)
})
