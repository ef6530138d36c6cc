import { styleText } from "node:util"

export type Paint = (style: "bold" | "dim" | "red" | "green", text: string) => string

/** Uses colours only in a terminal, and not if NO_COLOR is set (no-color.org). */
export function painter(is_terminal: boolean, env: Readonly<Record<string, string | undefined>>): Paint {
  const is_plain = !is_terminal || env.NO_COLOR || env.TERM === "dumb"
  return (style, text) => (is_plain ? text : styleText(style, text, { validateStream: false }))
}
