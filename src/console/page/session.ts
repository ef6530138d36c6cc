/** The admin token, kept only in the session storage of this tab (D50). */

const PLACE = "tollgate-admin-token"

let onClose: (reason: string) => void = () => {}

/** Null if signed out. */
export function tokenOf(): string | null {
  return sessionStorage.getItem(PLACE)
}

export function openSession(token: string): void {
  sessionStorage.setItem(PLACE, token)
}

/** Forgets the token; the sign-in form shows `reason`. */
export function closeSession(reason: string): void {
  if (tokenOf() === null) return
  sessionStorage.removeItem(PLACE)
  onClose(reason)
}

/** Sets the callback for the end of the session. */
export function whenClosed(listener: (reason: string) => void): void {
  onClose = listener
}
