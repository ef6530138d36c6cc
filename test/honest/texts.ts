/** Texts that prompts and answers are cut from, by how many bytes a token of them has. */

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

function identifiers(count: number): string {
  let state = 7
  let text = ""
  for (let at = 0; at < count; at++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    text += ALPHABET[(state >>> 16) % ALPHABET.length]
  }
  return text
}

export const TEXTS: Readonly<Record<string, string>> = {
  prose:
    "The gateway stands between the clients and the providers, and what it charges must be what the provider will ask for at the end of the month. A reader who finds one wrong cent will not believe the other figures either, so each of them is computed twice, in two ways, by two people who have not spoken to each other. ",
  code: "export function sumOf(list: readonly number[]): number {\n  let sum = 0\n  for (const one of list) {\n    if (!Number.isSafeInteger(one)) throw new RangeError(one)\n    sum += one\n  }\n  return sum\n}\n\n",
  json: '{"rows":[{"id":4711,"name":"Ada","paid":true,"amount":"12.50"},{"id":4712,"name":"Grace","paid":false,"amount":null}],"next":"cGFnZTI="}\n',
  chinese:
    "网关必须准确地计算每一个令牌的费用,并且在断线、崩溃或重试之后,账目仍然一致。供应商的账单是唯一的标准。",
  russian:
    "Шлюз считает каждый токен, и счёт провайдера должен совпадать с тем, что было списано со счёта клиента. ",
  identifiers: identifiers(400),
}

export const TEXT_KINDS: readonly string[] = Object.keys(TEXTS)

/** `length` characters of a kind of text, from `at` on. */
export function textOf(kind: number, at: number, length: number): string {
  const text = TEXTS[TEXT_KINDS[kind % TEXT_KINDS.length] ?? ""] ?? ""
  const start = at % text.length
  return text.repeat(Math.ceil((start + length) / text.length)).slice(start, start + length)
}
