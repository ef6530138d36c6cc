import { describe, expect, test } from "bun:test"
import { describe as describeRequest } from "../../src/admission/describe.ts"
import { applyModelPolicy } from "../../src/admission/model-policy.ts"
import type { Model } from "../../src/config/config.ts"
import { GatewayError } from "../../src/errors.ts"
import type { Price } from "../../src/money.ts"
import { chat as operation } from "../../src/operations/chat.ts"
import { responses } from "../../src/operations/responses.ts"
import type { Media } from "../../src/wire/media.ts"
import { parseChat, parseResponses } from "../../src/wire/requests.ts"
import { MAX_TOKENS } from "../../src/wire/usage.ts"
import { compressed, disguised, gif, jpeg, mp3, png, tagged, wav, webp } from "./files.ts"
import { aModel, quoteOf } from "./model.ts"

const url = (type: string, data: string) => `data:${type};base64,${data}`
const picture = (data: string, type = "image/png") => ({
  type: "image_url",
  image_url: { url: url(type, data) },
})
const asking = (content: unknown) => parseChat({ model: "m", messages: [{ role: "user", content }] })
const described = (...parts: readonly unknown[]) => describeRequest("chat", operation.texts(asking(parts)))
const held = (model: Partial<Model>, ...parts: readonly unknown[]) => {
  const quoted = quoteOf(operation, asking(parts), aModel(model))
  return quoted.prompt_tokens_bound - quoted.prompt_bytes
}
/** Bytes of the messages' JSON text around a content. */
const AROUND = 28
const CONTEXT = 1_000_000
const ADDRESS = "https://files.example/a"

describe("D12 a picture counts its pixels, at most a token for 28 by 28", () => {
  const rows: [string, string, number][] = [
    ["PNG", png(2_800, 280), 1_000],
    ["a part of a square", png(29, 1), 2],
    ["GIF", gif(280, 56), 20],
    ["JPEG, behind its metadata", jpeg(560, 280), 200],
    ["WebP", webp.lossy(560, 280), 200],
    ["WebP without loss", webp.lossless(561, 280), 210],
    ["WebP with more than one picture", webp.extended(5_600, 2_800), 20_000],
  ]
  test.each(rows)("%s", (_, data, tokens) => {
    expect(described(picture(data)).media).toEqual([
      { kind: "image", bytes: expect.any(Number), tokens },
    ] satisfies Media[])
    expect(held({ context_tokens: CONTEXT }, picture(data))).toBe(Math.max(4_096, tokens))
    expect(held({ context_tokens: CONTEXT, part_tokens: 300 }, picture(data))).toBe(300)
  })

  test.each(Object.entries(disguised))("%s counts as what a decoder can make of it", (name, data) => {
    const [media] = described(picture(data)).media
    expect(media?.tokens ?? null).toBe(name.endsWith("enlarges") ? 20 : null)
  })

  test("no prompt holds more tokens than a valid usage can have", () => {
    const largest = picture(png(2 ** 32 - 1, 2 ** 32 - 1))
    const bound = (model: Partial<Model>, part: object) =>
      quoteOf(operation, asking([part]), aModel(model)).prompt_tokens_bound
    expect(bound({}, largest)).toBe(MAX_TOKENS)
    const open = { context_tokens: MAX_TOKENS, open: { hold_rounds: 32, max_rounds: 32 } }
    expect(bound(open, { type: "item_reference", id: "a" })).toBe(MAX_TOKENS)
  })

  test.each([
    { type: "image_url", image_url: { url: ADDRESS } },
    // Media that a server of vLLM has kept.
    { type: "image_url", image_url: null, uuid: "a" },
    { type: "image_embeds", image_embeds: null, uuid: "a" },
    { type: "image_pil", image_pil: null, uuid: "a" },
  ])("a picture elsewhere is 4,096 tokens, or part_tokens: %j", (part) => {
    expect([held({}, part), held({ part_tokens: 48_169 }, part)]).toEqual([4_096, 48_169])
  })

  test.each([{ detail: "original" }, { detail: "ultra_high" }, { max_pixels: 1e9 }])(
    "larger pictures than usual, by %j: the context, where nothing else says how large",
    (knob) => {
      const elsewhere = { type: "image_url", image_url: { url: ADDRESS, ...knob }, ...knob }
      const whole = CONTEXT - described(elsewhere).bytes
      expect(held({ context_tokens: CONTEXT }, elsewhere)).toBe(whole)
      expect(held({ context_tokens: CONTEXT, part_tokens: 36_000 }, elsewhere)).toBe(36_000)
      expect(held({ context_tokens: CONTEXT }, { ...picture(png(5_600, 2_800)), ...knob })).toBe(20_000)
    },
  )
})

describe("D12 a sound counts its seconds or its bytes, everything that is compressed the context (R1, R9)", () => {
  const inline = (data: string, format: string) => ({ type: "input_audio", input_audio: { data, format } })
  const rows: [string, unknown, number][] = [
    ["WAV: 32 tokens a second", inline(wav(600), "wav"), 19_200],
    ["WAV of another rate", inline(wav(600, 16_000), "wav"), 19_200],
    ["MP3: a token for 16 bytes", inline(mp3(96_000), "mp3"), 6_000],
    ["MP3 behind a tag", inline(tagged(96_000), "mp3"), 6_000],
    ["MP3 in a picture", picture(mp3(96_000), "audio/mpeg"), 6_000],
    ["text, declared as such", picture(Buffer.alloc(6_000, "x").toString("base64"), "text/plain"), 6_000],
  ]
  test.each(rows)("%s", (_, part, tokens) => {
    expect(held({ context_tokens: CONTEXT }, part)).toBe(tokens)
    expect(held({ context_tokens: CONTEXT, part_tokens: 7_000 }, part)).toBe(Math.max(7_000, tokens))
  })

  const places: [string, (data: string) => unknown][] = [
    ["as a picture", (data) => picture(data)],
    ["as a picture of its own type", (data) => picture(data, "application/octet-stream")],
    ["as a file", (data) => ({ type: "file", file: { file_data: data } })],
    ["in a document", (data) => ({ type: "document", source: { type: "base64", data } })],
    ["under an unknown name", (data) => ({ type: "text", text: "x", thing: { of: [data] } })],
    ["in what a tool returned", (data) => ({ type: "tool_result", content: [picture(data)] })],
    ["in a message", (data) => ({ role: "user", content: "x", blob: data })],
  ]
  const all = Object.entries(compressed).flatMap(([form, make]) =>
    places.map(([place, part]) => [form, place, part(make(6_216))] as const),
  )
  test.each(all)("%s %s", (_, _place, part) => {
    const { bytes } = described(part)
    expect(held({ context_tokens: CONTEXT }, part)).toBe(CONTEXT - bytes)
    expect(quoteOf(operation, asking([part]), aModel({})).limits.prompt_tokens).toBe(100_000_000)
  })

  test("D68 with a likely hold too", () => {
    const model = aModel({ hold: "likely", context_tokens: CONTEXT })
    const request = asking([picture(compressed.PDF?.(600) ?? "")])
    expect(quoteOf(operation, request, model).prompt_tokens_bound).toBe(CONTEXT)
  })

  const elsewhere = { type: "image_url", image_url: { url: ADDRESS, detail: "original" } }
  const PRICED: Price = {
    ...{ input_pico: 1n, cached_input_pico: 1n, output_pico: 1n, per_call_nano: 0n },
    buckets: { audio_input: 1n },
  }
  const FREE = { input_pico: 0n, cached_input_pico: 0n, output_pico: 0n, per_call_nano: 0n }
  test.each<[what: string, part: object, path: string, bounded: Partial<Model>]>([
    ["a PDF", picture(compressed.PDF?.(6_215) ?? ""), "image_url.url", { context_tokens: CONTEXT }],
    ["a sound", inline(compressed.FLAC?.(89) ?? "", "flac"), "input_audio.data", { context_tokens: CONTEXT }],
    [
      "a file",
      { type: "file", file: { file_data: compressed.gzip?.(99) } },
      "file.file_data",
      { price: FREE },
    ],
    [
      "a video elsewhere",
      { type: "video_url", video_url: null, uuid: "a" },
      "uuid",
      { context_tokens: CONTEXT },
    ],
    ["a larger picture elsewhere", elsewhere, "image_url.detail", { part_tokens: 36_000 }],
  ])("without a context it is a 400 that names it: %s", (_, part, path, bounded) => {
    const request = asking([part])
    const texts = operation.texts(request)
    const answer = (model: Partial<Model>) =>
      applyModelPolicy(
        "chat",
        request,
        texts,
        describeRequest("chat", texts),
        aModel({ price: PRICED, ...model }),
      )
    const param = `messages[0].content[0].${path}`
    expect(answer({})).toMatchObject({
      code: "invalid_request",
      detail: { param, fields: { missing: "context_tokens" } },
    })
    expect(answer(bounded)).not.toBeInstanceOf(GatewayError)
  })

  test("a type and bytes that disagree are believed by some provider", () => {
    for (const part of [picture(png(), "application/pdf"), picture(mp3(96_000), "image/png")])
      expect(held({ context_tokens: CONTEXT }, part)).toBe(CONTEXT - described(part).bytes)
  })

  test("what is not whole Base64 counts as text too", () => {
    const broken = `${compressed.PDF?.(600)}\n and more`
    const part = { type: "file", file: { file_data: broken } }
    expect(described(part)).toMatchObject({
      bytes: AROUND + JSON.stringify([part]).length,
      media: [{ kind: "file", tokens: null }],
    })
  })
})

describe("D12 everything else is text, byte by byte, whatever its field is called (R2)", () => {
  const long = "long words ".repeat(1_000)
  const texts: [string, unknown][] = [
    ["text in a text part", { type: "text", text: long }],
    ["text in a part with a medium", { ...picture(""), text: long }],
    ["text under the name of a medium", { type: "text", image_url: null, input_audio: { note: long } }],
    ["Base64 of a picture as text", { type: "text", text: url("image/png", png(28, 28, 9_000)) }],
    [
      "in the source of a text",
      { type: "document", source: { type: "text", data: url("image/png", png()) } },
    ],
    ["unknown data", { type: "movie", movie: "QUJD".repeat(900) }],
    ["arguments", { type: "function_call", arguments: png(28, 28, 9_000) }],
  ]
  test.each(texts)("%s", (_, part) => {
    expect(described(part).bytes).toBe(AROUND + JSON.stringify([part]).length)
  })

  test.each([`// ${"what this part is for ".repeat(9)}`, "__start__"])("%s is no sound by chance", (note) => {
    const { media, switches } = described({ type: "text", text: "x", note })
    expect([media, switches.size]).toEqual([[], 0])
  })

  test("a medium beside the text of an item (R2)", () => {
    const item = { role: "user", content: [{ type: "input_text", text: long }], image_url: ADDRESS }
    const request = parseResponses({ model: "m", input: [item] })
    const { bytes, media } = describeRequest("responses", responses.texts(request))
    expect([bytes, media.length]).toEqual([JSON.stringify([item]).length, 1])
  })

  test("a plain string, a string in a list, and a part that is not in a list", () => {
    const count = (content: unknown) => describeRequest("chat", operation.texts(asking(content)))
    const data = url("application/pdf", compressed.PDF?.(600) ?? "")
    expect(count(data)).toMatchObject({ bytes: AROUND + data.length + 2, media: [] })
    expect(count([data])).toMatchObject({ bytes: AROUND + data.length + 4, media: [] })
    expect(count(picture(png())).media).toHaveLength(1)
  })
})

test("D6 for an estimate files count their size, other media part_tokens", () => {
  const parts = [picture(png()), { type: "file", file: { file_data: compressed.PDF?.(6_000) } }]
  const { estimate_bytes, prompt_bytes } = quoteOf(operation, asking(parts), aModel({ part_tokens: 100 }))
  expect(estimate_bytes - prompt_bytes).toBe(6_000 + 100)
})

describe("D9 a client that leaves may not have been shown what the prompt costs", () => {
  const sound = (data: string, format: string) => ({ type: "input_audio", input_audio: { data, format } })
  const file = (type: string, data: string) => ({ type: "file", file: { file_data: url(type, data) } })
  const rows: [string, boolean, unknown, object?][] = [
    ["text", false, { type: "text", text: "hello" }],
    ["a small picture", false, picture(png(800, 800))],
    ["a picture that may be more than 1,024 tokens", true, picture(png(1_024, 1_024))],
    [
      "a small picture that may be more than the operator's estimate",
      true,
      picture(png()),
      { part_tokens: 1_500 },
    ],
    ["a picture by its address", true, { type: "image_url", image_url: { url: ADDRESS } }],
    ["text in a file", false, file("text/plain", "QUJD".repeat(5_000))],
    ["a PDF", true, file("application/pdf", compressed.PDF?.(600) ?? "")],
    [
      "a PDF, without context_tokens",
      true,
      file("application/pdf", compressed.PDF?.(600) ?? ""),
      { context_tokens: null },
    ],
    ["a PDF that is called a picture", true, picture(compressed.PDF?.(600) ?? "")],
    ["a short sound", false, sound(wav(2), "wav")],
    ["a long sound", true, sound(wav(3_600), "wav")],
    ["a compressed sound", true, sound(compressed.FLAC?.(600) ?? "", "flac")],
  ]
  test.each(rows)("%s: %p", (_, is_hiding, part, fields = {}) => {
    const model = aModel({ context_tokens: CONTEXT, ...fields })
    expect(quoteOf(operation, asking([part]), model).is_hiding).toBe(is_hiding)
  })

  test.each<[boolean, object]>([
    [false, {}],
    [true, { reasoning_effort: "high" }],
    [true, { tools: [{ type: "mcp", server_url: ADDRESS }] }],
    [true, { web_search_options: {} }],
    [false, { tools: [{ type: "function", function: { name: "f" } }] }],
  ])("%p: %j", (is_hiding, fields) => {
    const request = parseChat({ model: "m", messages: [{ role: "user", content: "x" }], ...fields })
    expect(quoteOf(operation, request, aModel({ context_tokens: CONTEXT })).is_hiding).toBe(is_hiding)
  })
})
