const charts = JSON.parse(document.getElementById("charts").textContent)
const HEIGHT = 240
const plots = []

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()

const short = (value) => {
  if (value === 0) return "0"
  const size = Math.abs(value)
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)} M`
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)} k`
  return `${+value.toPrecision(3)}`
}

// Places are nines: 1 is 90 %, 2 is 99 %.
const percentile = (nines) =>
  `p${+(100 * (1 - 10 ** -nines)).toPrecision(Math.max(2, Math.floor(nines) + 1))}`

const ticks = (most) => [0.30103, 1, 2, 3, 4, 5, 6].filter((nines) => nines <= most)

// Of a logarithmic axis, only the powers of ten; of less than two of them, whatever there is.
const powersOfTen = (_plot, splits) => {
  const powers = splits.map((value) => (Number.isInteger(+Math.log10(value).toFixed(9)) ? value : null))
  return powers.filter((value) => value !== null).length > 1 ? powers : splits
}

function axis({ label, scale }) {
  const common = {
    label,
    labelSize: 26,
    labelFont: "12px system-ui, sans-serif",
    font: "11px system-ui, sans-serif",
    stroke: colour("quiet"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { stroke: colour("line"), width: 1 },
  }
  if (scale !== "percentile")
    return {
      ...common,
      ...(scale === "logarithmic"
        ? { filter: powersOfTen, grid: { ...common.grid, filter: powersOfTen } }
        : {}),
      values: (_plot, values) => values.map((value) => (value === null ? "" : short(value))),
    }
  return {
    ...common,
    splits: (plot) => ticks(plot.scales.x.max),
    values: (_plot, values) => values.map(percentile),
  }
}

function draw(chart, place) {
  const x_value = chart.x.scale === "percentile" ? percentile : short
  return new uPlot(
    {
      width: place.clientWidth,
      height: HEIGHT,
      scales: {
        x: { time: false },
        y:
          chart.y.scale === "logarithmic"
            ? { distr: 3 }
            : { range: (_plot, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
      },
      axes: [axis(chart.x), { ...axis(chart.y), size: 56 }],
      cursor: { points: { size: 6 } },
      series: [
        { label: chart.x.label, value: (_plot, value) => (value === null ? "" : x_value(value)) },
        ...chart.series.map(({ name, colour: colour_name }) => ({
          label: name,
          stroke: colour(colour_name),
          width: 1.8,
          points: { show: chart.places.length <= 12 },
          value: (_plot, value) => (value === null ? "" : short(value)),
        })),
      ],
    },
    [chart.places, ...chart.series.map(({ values }) => values)],
    place,
  )
}

function drawAll() {
  for (const plot of plots.splice(0)) plot.destroy()
  for (const [at, chart] of charts.entries()) plots.push(draw(chart, document.getElementById(`chart-${at}`)))
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll)
addEventListener("resize", () => {
  for (const plot of plots) plot.setSize({ width: plot.root.parentElement.clientWidth, height: HEIGHT })
})
drawAll()
