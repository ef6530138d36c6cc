import { describe, expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import {
  chatCredential,
  messagesCredential,
  modelListCredential,
} from "../../src/operations/request-headers.ts"
import { refusalOf } from "../support/refusal.ts"

const key = makeKey()
const other = makeKey()
const mistyped = key.slice(0, -1) + (key.endsWith("0") ? "1" : "0")

type Read = (headers: Headers) => string
const chat: Read = chatCredential
const messages: Read = messagesCredential
const list: Read = (headers) => modelListCredential(headers, false)
const versionedList: Read = (headers) => modelListCredential(headers, true)

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

const refusal = (read: Read, headers: Headers) => refusalOf(() => read(headers))

describe("D20 which header carries the key", () => {
  const found: [string, Read, Record<string, string>, string][] = [
    ["chat: Authorization", chat, bearer(key), key],
    ["chat: x-api-key is ignored", chat, { ...bearer(key), "x-api-key": other }, key],
    ["the scheme in lower case", chat, { authorization: `bearer ${key}` }, key],
    ["the scheme in upper case", chat, { authorization: `BEARER ${key}` }, key],
    ["two spaces after the scheme", chat, { authorization: `Bearer  ${key}` }, key],
    ["count: x-api-key", messages, { "x-api-key": key }, key],
    ["count: Authorization when x-api-key is absent", messages, bearer(key), key],
    ["count: both, the same", messages, { authorization: `bearer ${key}`, "x-api-key": key }, key],
    ["count: both, only x-api-key ours", messages, { ...bearer("sk-ant-oat01-x"), "x-api-key": key }, key],
    ["count: both, only the bearer ours", messages, { ...bearer(key), "x-api-key": "sk-ant" }, key],
    ["count: both, x-api-key mistyped", messages, { ...bearer(key), "x-api-key": mistyped }, key],
    [
      "count: both, Authorization no bearer",
      messages,
      { "x-api-key": key, authorization: `Basic ${key}` },
      key,
    ],
    ["count: both, Authorization empty", messages, { "x-api-key": key, authorization: "" }, key],
    ["count: both, x-api-key empty", messages, { "x-api-key": "", ...bearer(key) }, key],
    ["list: Authorization", list, { ...bearer(key), "x-api-key": other }, key],
    ["versioned list: x-api-key", versionedList, { "x-api-key": key }, key],
    ["versioned list: Authorization", versionedList, bearer(key), key],
  ]
  test.each(found)("%s", (_, read, headers, expected) => {
    expect(read(new Headers(headers))).toBe(expected)
  })
})

describe("D20 what is no credential is a 401", () => {
  const everywhere: [string, string][] = [
    ["an empty header", ""],
    ["the scheme alone", "Bearer"],
    ["the key alone", key],
    ["Basic", `Basic ${key}`],
    ["Token", `Token ${key}`],
    ["a scheme that only begins so", `Bearers ${key}`],
    ["no space", `Bearer${key}`],
    ["a tab for a space", `Bearer\t${key}`],
    ["a colon", `Bearer: ${key}`],
    ["a second word", `Bearer ${key} x`],
    ["two credentials in one header", `Bearer ${key}, Bearer ${key}`],
    ["quotes", `Bearer "${key}"`],
    ["the key in upper case", `Bearer ${key.toUpperCase().replace("TG_LIVE_", "tg_live_")}`],
    ["a wrong checksum", `Bearer ${mistyped}`],
    ["a provider's key", "Bearer sk-proj-0123456789"],
    ["16,000 spaces", `Bearer ${" ".repeat(16_000)}x`],
  ]
  for (const [who, read] of Object.entries({ chat, messages, list, versionedList })) {
    test.each(everywhere)(`${who}: Authorization with %s`, (_, authorization) => {
      const error = refusal(read, new Headers({ authorization }))
      expect(error).toMatchObject({ code: "invalid_api_key", status: 401 })
      expect(error.message).not.toContain(key.slice(8))
    })

    test(`${who}: no header at all`, () => {
      expect(refusal(read, new Headers()).code).toBe("invalid_api_key")
    })
  }

  const refused: [string, Read, Record<string, string>][] = [
    ["chat: x-api-key alone", chat, { "x-api-key": key }],
    ["list without a version header: x-api-key alone", list, { "x-api-key": key }],
    ["count: both, different", messages, { "x-api-key": key, ...bearer(other) }],
    ["count: both, neither ours", messages, { "x-api-key": "sk-ant", ...bearer("sk-ant") }],
    ["count: x-api-key mistyped", messages, { "x-api-key": mistyped }],
    ["count: both the same and mistyped", messages, { "x-api-key": mistyped, ...bearer(mistyped) }],
    ["count: x-api-key with a scheme", messages, { "x-api-key": `Bearer ${key}` }],
    ["count: x-api-key twice in one", messages, { "x-api-key": `${key}, ${key}` }],
    ["versioned list: both, different", versionedList, { "x-api-key": key, ...bearer(other) }],
  ]
  test.each(refused)("%s", (_, read, headers) => {
    expect(refusal(read, new Headers(headers)).code).toBe("invalid_api_key")
  })
})
