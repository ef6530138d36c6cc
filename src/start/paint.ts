type PaintStyle = "bold" | "dim" | "red" | "green"
export type Paint = (style: PaintStyle, text: string) => string

const CODES: Readonly<Record<PaintStyle, readonly [on: number, off: number]>> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
}

/** Uses colours only in a terminal, and not if NO_COLOR is set (no-color.org). */
export function painter(is_terminal: boolean, env: Readonly<Record<string, string | undefined>>): Paint {
  if (!is_terminal || env.NO_COLOR || env.TERM === "dumb") return (_style, text) => text
  return (style, text) => {
    const [on, off] = CODES[style]
    return `\u001b[${on}m${text}\u001b[${off}m`
  }
}
