import type { CallRecord } from "../../src/ledger/reports/calls.ts"
import { parseUsd } from "../../src/money.ts"
import type { Plan, Said } from "./author.ts"
import type { Seen } from "./customer.ts"
import type { SceneAccount } from "./scene.ts"

/** Nano-USD per token: input, cached input, output. */
const PRICES = { input: 1_000n, cached: 100n, output: 4_000n }
const BYTES_PER_TOKEN = 4

/** What is wrong with one call, by the six rules, from what its provider said and its client saw; nothing, if all is well. */
export function judge(call: CallRecord, said: Said | undefined, seen: Seen | undefined): string[] {
  const faults: string[] = []
  const blame = (condition: boolean, fault: string) => void (condition && faults.push(fault))
  const { state, basis, charge_nano, ending, operation } = call
  const free = charge_nano === 0n && basis === "none"
  const answered = seen !== undefined && seen.status === 200
  const output_seen = answered ? seen.output_bytes : 0

  blame(state === "open" || charge_nano === null, "is open")
  blame(said === undefined && !free, "is charged, and no provider was asked")
  blame(said?.accepted === false && !free, "is charged, and the provider refused")
  blame(state === "released" && !free, "is released and charged")
  blame(state === "released" && output_seen > 0, "is released, and its client saw output (rule 6)")
  blame(
    state === "released" && answered && seen.whole && !call.stream,
    "is released, and its client has a JSON answer",
  )
  blame(
    answered && seen.whole && output_seen > 0 && state !== "settled",
    "was delivered whole and is not settled (D32)",
  )
  if (said === undefined || charge_nano === null || free) return faults
  blame(operation !== said.plan.operation, `is recorded as ${operation}`)

  // A call whose gateway died is charged its last checkpoint, which may be a second old (D57).
  const least = state === "expired" ? 0 : output_seen
  if (said.plan.fate === "usage first" && said.usage) {
    const after = [0, ...said.output_bytes].filter((observed) => observed >= least)
    const possible = ending === "completed" ? after.slice(-1) : after
    const later = (observed: number) => (observed === 0 ? 0n : estimateCost(observed))
    blame(basis !== "partial", `rests on ${basis}, and output came after its usage (D4)`)
    blame(
      !possible.some((observed) => charge_nano === usageCost(said.plan) + later(observed)),
      "is not charged its usage and what may have been observed after it (rules 4, 5)",
    )
    return faults
  }
  if (basis === "usage") {
    blame(!said.usage, "is charged by usage that was never sent")
    blame(charge_nano !== usageCost(said.plan), "is not charged what the usage costs (rule 1)")
  } else if (said.plan.operation === "embeddings") {
    blame(basis !== "estimate", `rests on ${basis}`)
    blame(charge_nano !== promptCost(said), "is not charged an estimate of its input (D67)")
    blame(said.usage, "is estimated, and its usage was sent (rule 1)")
  } else {
    const bytes = said.output_bytes.filter((observed) => observed >= least)
    const is_cut_by_client = call.stream && (ending === "client_left" || ending === "client_stalled")
    // The checkpoint of a stream that was read on after its client had left includes the prompt (D6, D9).
    const may_be_cut = state === "expired" && call.stream && (seen === undefined || seen.left)
    const prompts = is_cut_by_client ? [promptCost(said)] : may_be_cut ? [0n, promptCost(said)] : [0n]
    const possible = ending === "completed" ? bytes.slice(-1) : bytes
    blame(basis !== "estimate", `rests on ${basis}`)
    blame(
      !possible.some((observed) => prompts.some((prompt) => charge_nano === prompt + estimateCost(observed))),
      "is not charged for output that may have been observed (rules 2, 4, 5)",
    )
    blame(ending === "completed" && said.usage, "is estimated, and its usage was sent (rule 1)")
  }
  return faults
}

/**
 * What is wrong with the balance of an account, given the calls of its shard. It is what the account was given less the
 * charges of its calls, each of which `judge` compares with what the provider said.
 */
export function judgeBalance(
  { id, usd, shard }: SceneAccount,
  { balance, held }: { readonly balance: string; readonly held: string },
  calls: readonly CallRecord[],
): string[] {
  const charged_nano = calls
    .filter(({ account_id }) => account_id === id)
    .reduce((sum, { charge_nano }) => sum + (charge_nano ?? 0n), 0n)
  const due_nano = nanoOf(usd) - charged_nano
  const said = `account ${id} in shard ${shard} has ${balance}`
  return [
    ...(nanoOf(balance) === due_nano ? [] : [`${said}, and its calls leave it ${due_nano} nano-USD`]),
    ...(nanoOf(held) === 0n ? [] : [`${said}, of which ${held} is held for no call`]),
  ]
}

/** The nano-USD of an amount that the admin API shows. */
export function nanoOf(usd: string): bigint {
  const amount_nano = parseUsd(usd)
  if (amount_nano === null) throw new Error(`${usd} is no amount`)
  return amount_nano
}

function usageCost({ usage, operation }: Plan): bigint {
  if (usage === null) return 0n
  if (operation === "embeddings") return BigInt(usage.prompt) * PRICES.input
  const uncached = BigInt(usage.prompt - usage.cached) * PRICES.input
  return uncached + BigInt(usage.cached) * PRICES.cached + BigInt(usage.completion) * PRICES.output
}

/** What a client that cuts its stream pays for its prompt (D6), and whoever embeds without usage for the input (D67). */
function promptCost({ prompt_bytes }: Said): bigint {
  return BigInt(Math.floor(prompt_bytes / BYTES_PER_TOKEN)) * PRICES.input
}

function estimateCost(output_bytes: number): bigint {
  return BigInt(Math.max(1, Math.floor(output_bytes / BYTES_PER_TOKEN))) * PRICES.output
}
