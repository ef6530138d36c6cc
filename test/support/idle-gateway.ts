import { InFlight } from "../../src/admission/in-flight.ts"
import { KeyLoads } from "../../src/admission/key-loads.ts"
import { Memory } from "../../src/admission/memory.ts"
import { openLog } from "../../src/log.ts"
import { createMetrics } from "../../src/metrics/metrics.ts"
import { UsageWarnings } from "../../src/metrics/usage-warnings.ts"
import type { Gateway } from "../../src/service/gateway.ts"
import { CircuitBreakers } from "../../src/upstream/circuit-breakers.ts"
import { HiddenOutput } from "../../src/upstream/hidden-output.ts"

const unasked = () => {
  throw new Error("the test asks neither the ledger nor a provider")
}

/** The parts of a gateway with nothing behind them: no ledger, no reports and no sockets. */
export function idleGateway(): Omit<Gateway, "config" | "catalog"> {
  return {
    ledger: {
      standing: unasked,
      owner: unasked,
      forget: unasked,
      elsewhere: unasked,
      shard: () => ({
        labels: unasked,
        customerTerms: unasked,
        hold: unasked,
        end: unasked,
        spooled: unasked,
        attempted: unasked,
        recordEstimate: unasked,
        refused: () => {},
        keepAnswer: unasked,
        keptAnswer: unasked,
      }),
    },
    reports: {
      call: unasked,
      calls: unasked,
      refunded: unasked,
      archived: unasked,
      holder: unasked,
      keys: unasked,
      statement: unasked,
      budgets: unasked,
      usage: unasked,
    },
    breakers: new CircuitBreakers(),
    hidden_output: new HiddenOutput(),
    usage_warnings: new UsageWarnings(),
    in_flight: new InFlight(),
    key_loads: new KeyLoads(),
    memory: new Memory(1_000_000),
    metrics: createMetrics(),
    log: openLog("silent"),
    tracer: null,
    sockets: { keepOpen: unasked, restore: unasked, cut: unasked, address: unasked },
    notReady: () => null,
  }
}
