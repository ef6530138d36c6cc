import { tell } from "../admin-api.ts"
import { el, named } from "../element.ts"
import type { Action } from "../form.ts"

/** Suspends what is at `path` of the admin API, or resumes it. */
export function suspending(
  kind: "account" | "key",
  path: string,
  name: string,
  is_suspended: boolean,
): Action {
  const calls = `New calls ${kind === "key" ? "with" : "of"} `
  const submit = is_suspended ? "Resume" : "Suspend"
  return {
    title: `${submit} ${kind}`,
    text: is_suspended
      ? el("p", calls, named(name), " are accepted again.")
      : el("p", calls, named(name), " are refused until it is resumed. Calls in progress continue."),
    submit,
    is_dangerous: !is_suspended,
    act: () => tell("PATCH", path, { suspended: !is_suspended }),
  }
}
