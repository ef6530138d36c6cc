import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { Catalog, termsOf } from "../../src/admission/catalog.ts"
import type { Model } from "../../src/config/config.ts"
import { aCall, aModel } from "./model.ts"

const chat = aModel({ name: "gpt", family: "chat" })
const messages = aModel({ name: "claude", family: "messages" })
const bothChat = aModel({ name: "both", family: "chat" })
const bothMessages = aModel({ name: "both", family: "messages" })
const catalogOf = (models: readonly Model[]) => new Catalog(models, [termsOf(models).map((_, at) => at + 1)])
const catalog = catalogOf([messages, chat, bothMessages, bothChat])

test("D63 the operation decides which of two models of one name is meant", () => {
  expect(catalog.find("both", "chat")).toBe(bothChat)
  expect(catalog.find("both", "messages")).toBe(bothMessages)
})

test("D19 letters that only look alike are another name", () => {
  expect(catalog.find("ｇｐｔ", "chat")).toMatchObject({ code: "model_not_found" })
})

test("D15 a model of the other entry exists, but may not be used here: the answer says where", () => {
  expect(catalog.find("claude", "chat")).toMatchObject({
    code: "model_not_allowed",
    message: expect.stringMatching(/does not support chat.*POST \/v1\/messages\./),
  })
  expect(catalog.find("gpt", "messages")).toMatchObject({
    code: "model_not_allowed",
    message: expect.stringMatching(/does not support messages.*POST \/v1\/chat\/completions/),
  })
})

test("D23 the models of an entry, in the order of the configuration", () => {
  expect(catalog.list("chat")).toEqual([chat, bothChat])
  expect(catalog.list("messages")).toEqual([messages, bothMessages])
  expect(catalogOf([]).list("chat")).toEqual([])
})

describe("D100 terms at a customer's prices", () => {
  const priced = (id: string) => ({ id, model: "gpt", price_multiplier_bp: null, prices: { input: "1" } })
  const sell = (from: Catalog, id: string, register: Parameters<Catalog["sold"]>[4]) =>
    from.sold(chat, "chat", 0, priced(id), register)

  test("are registered once for all calls that wait for them, and again after a failure", async () => {
    const own = catalogOf([chat])
    let count = 0
    const failing = () => {
      count += 1
      return Promise.reject(new Error("failed"))
    }
    const failed = await Promise.allSettled([sell(own, "a", failing), sell(own, "a", failing)])
    expect([count, ...failed.map(({ status }) => status)]).toEqual([1, "rejected", "rejected"])
    const register = async () => {
      count += 1
      return [7]
    }
    const [one, other] = await Promise.all([sell(own, "a", register), sell(own, "a", register)])
    expect([count, one.terms_ids, one === other]).toEqual([2, [7], true])
  })

  test("of a shard are registered again after its database was replaced", async () => {
    const own = new Catalog([chat], [[1], [1]])
    const asked: number[] = []
    const use = (shard: number) =>
      own.sold(chat, "chat", shard, priced("a"), async () => {
        asked.push(shard)
        return [1]
      })
    for (const shard of [0, 1]) await use(shard)
    own.forgetAllSold(1)
    for (const shard of [0, 1]) await use(shard)
    expect(asked).toEqual([0, 1, 1])
  })

  test("are forgotten in the order of their last use", async () => {
    const own = catalogOf([chat])
    const asked: string[] = []
    const use = (id: string) =>
      sell(own, id, async () => {
        asked.push(id)
        return [1]
      })
    await use("a")
    await use("b")
    for (let at = 0; at < 9_999; at += 1) {
      await use("a")
      await use(String(at))
    }
    expect(asked.length).toBe(10_001)
    await use("a")
    await use("b")
    expect(asked.slice(10_001)).toEqual(["b"])
  })
})

test("D56 a model has the numbers of its terms, one for each way to it, in their order", () => {
  const [route] = chat.routes
  const two = aModel({ name: "two", routes: [route, { ...route, model: "other-name" }] })
  const models = [messages, two, chat]
  expect(termsOf(models).map(({ family, model, upstream }) => [family, model, upstream])).toEqual([
    ["messages", "claude", "upstream"],
    ["chat", "two", "upstream"],
    ["chat", "two", "upstream"],
    ["chat", "gpt", "upstream"],
  ])
  const numbered = new Catalog(models, [
    [4, 9, 2, 7],
    [14, 19, 12, 17],
  ])
  const idsIn = (shard: number) =>
    models.map((model): readonly number[] => numbered.termsIds(model, model.family, shard))
  expect(idsIn(0)).toEqual([[4], [9, 2], [7]])
  // D74: each shard has numbers of its own.
  expect(idsIn(1)).toEqual([[14], [19, 12], [17]])
})

test("D62 each way to a model has terms for each of its tiers, in their order", () => {
  const [route] = chat.routes
  const tier = (above_tokens: number) => ({ above_tokens, price: chat.price })
  const tiered = aModel({
    name: "tiered",
    routes: [route, { ...route, model: "b" }],
    tiers: [tier(5), tier(9)],
  })
  const models = [tiered, chat]
  expect(termsOf(models).map(({ model, above_tokens }) => [model, above_tokens])).toEqual([
    ["tiered", undefined],
    ["tiered", 5],
    ["tiered", 9],
    ["tiered", undefined],
    ["tiered", 5],
    ["tiered", 9],
    ["gpt", undefined],
  ])
  const numbered = new Catalog(models, [[4, 9, 2, 7, 1, 3, 8]])
  expect(models.map((model) => numbered.termsIds(model, model.family, 0) as readonly number[])).toEqual([
    [4, 9, 2, 7, 1, 3],
    [8],
  ])
})

test("D70 and for each of its service tiers, which a call finds by the tier and the size of its prompt", () => {
  const [route] = chat.routes
  const other = { ...route, model: "b" }
  const tier = (above_tokens: number) => ({ above_tokens, price: chat.price })
  const flex = { name: "flex", price: chat.price, tiers: [tier(7)] }
  const priority = { name: "priority", price: chat.price, tiers: [] }
  const model = aModel({ routes: [route, other], tiers: [tier(5)], service_tiers: [flex, priority] })
  const [terms] = [termsOf([model])]
  const one = [
    [undefined, undefined],
    [undefined, 5],
    ["flex", undefined],
    ["flex", 7],
    ["priority", undefined],
  ]
  expect(terms.map(({ service_tier, above_tokens }) => [service_tier, above_tokens])).toEqual([
    ...one,
    ...one,
  ])
  const terms_ids = new Catalog([model], [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]).termsIds(model, "chat", 0)
  const call = aCall(model, { terms_ids })
  const found = () => [null, flex, priority].map((at) => [call.termsId(5, at), call.termsId(8, at)])
  expect(found()).toEqual([
    [0, 1],
    [2, 3],
    [4, 4],
  ])
  call.answeredBy(other)
  expect(found()).toEqual([
    [5, 6],
    [7, 8],
    [9, 9],
  ])
})

describe("D19 names match byte for byte", () => {
  test("a model may have any name, __proto__ too", () => {
    const odd = aModel({ name: "__proto__" })
    expect(catalogOf([odd]).find("__proto__", "chat")).toBe(odd)
  })

  test("a name is found exactly when its bytes are those of a model", () => {
    const name = fc.string({ unit: "grapheme", minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(fc.uniqueArray(name), name, (names, asked) => {
        const found = catalogOf(names.map((name) => aModel({ name }))).find(asked, "chat")
        const exists = names.some((name) => Buffer.from(name).equals(Buffer.from(asked)))
        expect(found).toMatchObject(exists ? { name: asked } : { code: "model_not_found" })
      }),
    )
  })
})
