/** The operator's token: in this tab's session storage and nowhere else (D50). */

const PLACE = "tollgate-admin-token"

let onClose: (reason: string) => void = () => {}

/** Null when nobody is signed in. */
export function tokenOf(): string | null {
  return sessionStorage.getItem(PLACE)
}

export function openSession(token: string): void {
  sessionStorage.setItem(PLACE, token)
}

/** Forgets the token; `reason` is what the sign-in form says then. */
export function closeSession(reason: string): void {
  if (tokenOf() === null) return
  sessionStorage.removeItem(PLACE)
  onClose(reason)
}

/** What happens when the session ends. */
export function whenClosed(listener: (reason: string) => void): void {
  onClose = listener
}
