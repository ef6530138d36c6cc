/** The result of one check. `fix` is the correction if it failed. */
export interface Finding {
  readonly what: string
  readonly ok: boolean
  readonly found: string
  readonly fix: string | null
}

export type FindingVerdict = string | readonly [found: string, fix: string]

export function finding(what: string, verdict: FindingVerdict): Finding {
  if (typeof verdict === "string") return { what, ok: true, found: verdict, fix: null }
  const [found, fix] = verdict
  return { what, ok: false, found, fix }
}
