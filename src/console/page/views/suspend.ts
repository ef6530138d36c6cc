import { tell } from "../admin-api.ts"
import { el, named } from "../element.ts"
import { openDialog } from "../form.ts"

/** Suspends what is at `path` of the admin API, or resumes it, if that is confirmed. */
export function suspend(
  kind: "account" | "key",
  path: string,
  name: string,
  is_suspended: boolean,
  done: () => void,
): void {
  const calls = `New calls ${kind === "key" ? "with" : "of"} `
  openDialog({
    title: `${is_suspended ? "Resume" : "Suspend"} ${kind}`,
    text: is_suspended
      ? el("p", calls, named(name), " are accepted again.")
      : el("p", calls, named(name), " are refused until it is resumed. Calls in progress continue."),
    submit: is_suspended ? "Resume" : "Suspend",
    is_dangerous: !is_suspended,
    act: () => tell("PATCH", path, { suspended: !is_suspended }),
    done,
  })
}
