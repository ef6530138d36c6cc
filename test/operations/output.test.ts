import { expect, test } from "bun:test"
import { haveOutput } from "../../src/config/config.ts"
import { chat } from "../../src/operations/chat.ts"
import { embeddings } from "../../src/operations/embeddings.ts"
import { messages } from "../../src/operations/messages.ts"
import { responses } from "../../src/operations/responses.ts"
import { operationNames } from "../../src/wire/call.ts"

test("the configuration and the operations agree on which ones have output", () => {
  const operations = [chat, embeddings, messages, responses]
  expect(operations.map(({ name }) => name)).toEqual([...operationNames])
  for (const { name, generates } of operations) expect([name, haveOutput([name])]).toEqual([name, generates])
})
