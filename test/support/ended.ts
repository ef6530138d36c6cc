import { SETTLE_WAIT_MS } from "../../src/settlement/settle.ts"
import { ADMIN_TOKEN } from "./operator.ts"
import { until } from "./until.ts"

const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }

/**
 * Waits for the end of the call with this id, if its answer may have left before (D32). Otherwise a test that reads a balance
 * or a receipt after an answer would fail where the database was slow once. Does not wait after a 503, which is no call, nor for a
 * ledger that cannot be read.
 */
export async function ended(
  { url }: { readonly url: string },
  { id, status }: { readonly id: string | null | undefined; readonly status: number },
  asked_ms: number,
): Promise<void> {
  if (id == null || status === 503 || performance.now() - asked_ms < SETTLE_WAIT_MS) return
  const state = () =>
    fetch(`${url}/admin/calls/${id}`, { headers }).then(
      async (answer): Promise<unknown> => (answer.ok ? JSON.parse(await answer.text()).state : null),
      () => null,
    )
  await until(state, (now) => now !== "open")
}
