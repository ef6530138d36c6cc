/** The result of one check. `fix` is the correction if it failed. */
export interface Finding {
  readonly what: string
  readonly ok: boolean
  readonly found: string
  readonly fix: string | null
}

export function right(what: string, found: string): Finding {
  return { what, ok: true, found, fix: null }
}

export function wrong(what: string, found: string, fix: string): Finding {
  return { what, ok: false, found, fix }
}
