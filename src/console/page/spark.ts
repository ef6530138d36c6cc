import { sparkPoints } from "../chart.ts"
import { svg } from "./element.ts"

const [WIDTH, HEIGHT] = [120, 28]

/** A line without axes that shows a trend; `label` has the amount. */
export function spark(values: readonly number[], label: string): SVGSVGElement {
  const points = sparkPoints(values, WIDTH, HEIGHT - 4)
  return svg(
    "svg",
    {
      class: "spark",
      viewBox: `0 -2 ${WIDTH} ${HEIGHT}`,
      role: "img",
      "aria-label": label,
      preserveAspectRatio: "none",
    },
    svg("polygon", { points: `0,${HEIGHT - 4} ${points} ${WIDTH},${HEIGHT - 4}` }),
    svg("polyline", { points }),
  )
}
