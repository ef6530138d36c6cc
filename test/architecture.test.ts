import { describe, expect, test } from "bun:test"
import { basename, dirname, join, normalize } from "node:path"
import { filesMatching, ROOT, textOf } from "./support/repository.ts"

/** The code base tests itself: who may know whom, what is pure, what no file says, and that every rule has its test. */

const SELF = "test/architecture.test.ts"

interface CodeFile {
  /** Below the root. */
  readonly path: string
  readonly text: string
  /** Files by their path below the root, packages by their name; types too. */
  readonly imports: readonly string[]
}

const IMPORT = /^(?:import|export)\b[^;"]*?\bfrom "([^"]+)"|^import "([^"]+)"|\bimport\("([^"]+)"\)/gm

function codeFiles(pattern: string): CodeFile[] {
  return filesMatching(pattern).map((path) => {
    const text = textOf(path)
    const imports = [...text.matchAll(IMPORT)].map(([, from, bare, dynamic]) => {
      const name = from ?? bare ?? dynamic ?? ""
      return name.startsWith(".") ? normalize(join(dirname(path), name)) : name
    })
    return { path, text, imports }
  })
}

const sources = codeFiles("{src,bench}/**/*.ts")
const tests = codeFiles("test/**/*.ts").filter(({ path }) => path !== SELF)

/** What everything may speak of: words, money, ids, errors, signals, timeouts, and what a configuration means. */
const COMMON = [
  "src/wire/",
  "src/errors.ts",
  "src/kinds.ts",
  "src/money.ts",
  "src/turns.ts",
  "src/id.ts",
  "src/system-reason.ts",
  "src/call/cutoff.ts",
  "src/config/config.ts",
  "src/presets/preset.ts",
]

const LEDGER_COMMON = [
  "src/wire/",
  "src/kinds.ts",
  "src/money.ts",
  "src/turns.ts",
  "src/id.ts",
  "src/ledger/entries.ts",
  "src/ledger/events.ts",
]

/** The folders and files of the ledger in their order: each imports only those of the rows above its own. */
const LEDGER_ROWS = [
  ["schema"],
  ["database"],
  ["money"],
  ["queue", "accounts"],
  ["archive"],
  ["reports", "moves"],
  ["feed"],
  ["shards.ts"],
  ["shard-questions.ts"],
  ["operators.ts"],
  ["database-ledger.ts"],
  ["ledger.ts"],
].map((row) => row.map((name) => `src/ledger/${name.includes(".") ? name : `${name}/`}`))

const LEDGER_ARROWS: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  LEDGER_ROWS.flatMap((row, index) =>
    row.map((name) => [name, [...LEDGER_COMMON, ...LEDGER_ROWS.slice(0, index).flat()]]),
  ),
)

/**
 * Which files each room may import besides itself; a path that ends in a slash is a whole room. The way of a call goes
 * routes, admission, upstream, meter, settlement, ledger, and never back. The one look back is at the `Call`, which
 * owns the hold that a settlement ends. An `Operation` is a value that every stage reads its part of (D63).
 */
const ARROWS: Readonly<Record<string, readonly string[]>> = {
  "src/kinds.ts": [],
  "src/turns.ts": ["src/wire/shape.ts"],
  "src/money.ts": ["src/kinds.ts"],
  "src/id.ts": [],
  "src/call/cutoff.ts": [],
  "src/log-output.ts": [],
  "src/log.ts": ["src/log-output.ts"],
  "src/errors.ts": [],
  "src/system-reason.ts": [],
  "src/wire/": COMMON,
  "src/usage/": ["src/wire/", "src/kinds.ts", "src/money.ts"],
  "src/presets/": ["src/usage/readers.ts", "src/wire/call.ts"],
  "src/reconciliation/": COMMON,
  "src/config/": [...COMMON, "src/ledger/database/database-url.ts", "src/usage/readers.ts", "src/presets/"],
  "src/oidc/": [...COMMON, "src/config/oidc.ts"],
  "src/meter/": [...COMMON, "src/usage/"],
  "src/ledger/entries.ts": LEDGER_COMMON,
  "src/ledger/events.ts": LEDGER_COMMON,
  ...LEDGER_ARROWS,
  "src/embedded/": ["src/system-reason.ts", "src/ledger/database/address.ts", "src/ledger/events.ts"],
  "src/upstream/": COMMON,
  "src/traces/trace.ts": [...COMMON, "src/ledger/entries.ts"],
  "src/traces/": [
    ...COMMON,
    "src/config/otlp.ts",
    "src/config/pushed-metrics.ts",
    "src/config/tracing.ts",
    "src/ledger/entries.ts",
    "src/metrics/registry.ts",
    "package.json",
  ],
  "src/operations/operation.ts": [
    ...COMMON,
    "src/meter/json-reading.ts",
    "src/meter/relay-options.ts",
    "src/upstream/refusal.ts",
  ],
  "src/operations/": [
    ...COMMON,
    "src/admission/key.ts",
    "src/usage/",
    "src/meter/",
    "src/upstream/refusal.ts",
  ],
  "src/call/": [
    ...COMMON,
    "src/operations/operation.ts",
    "src/ledger/entries.ts",
    "src/meter/reading.ts",
    "src/traces/trace.ts",
  ],
  "src/admission/": [
    ...COMMON,
    "src/operations/operation.ts",
    "src/call/call.ts",
    "src/ledger/entries.ts",
    "src/ledger/database/fair-share.ts",
  ],
  "src/settlement/": [
    ...COMMON,
    "src/ledger/entries.ts",
    "src/meter/reading.ts",
    "src/meter/output.ts",
    "src/call/call.ts",
  ],
  "src/metrics/": [...COMMON, "src/call/call.ts", "src/ledger/entries.ts", "src/log.ts"],
  "src/service/gateway.ts": [
    ...COMMON,
    "src/admission/",
    "src/upstream/",
    "src/ledger/entries.ts",
    "src/ledger/reports/client.ts",
    "src/metrics/metrics.ts",
    "src/log.ts",
    "src/traces/trace.ts",
    "src/metrics/usage-warnings.ts",
  ],
  "src/routes/": [
    ...COMMON,
    "src/operations/",
    "src/call/call.ts",
    "src/admission/",
    "src/upstream/",
    "src/usage/",
    "src/meter/",
    "src/settlement/",
    "src/events/post.ts",
    "src/events/webhook.ts",
    "src/ledger/",
    "src/service/gateway.ts",
    "src/metrics/metrics.ts",
    "src/oidc/",
    "src/reconciliation/",
    "src/traces/trace.ts",
    "package.json",
  ],
  "src/demo/access.ts": ["src/wire/usage.ts"],
  "src/demo/": [...COMMON, "src/admission/key.ts", "src/ledger/"],
  "src/service/app.ts": [...COMMON, "src/routes/", "src/service/gateway.ts", "src/ledger/entries.ts"],
  "src/service/server.ts": [...COMMON, "src/service/gateway.ts", "src/service/turn.ts"],
  "src/service/shutdown.ts": [...COMMON, "src/admission/in-flight.ts", "src/service/server.ts"],
  "src/start/": [
    ...COMMON,
    "src/config/",
    "src/ledger/database/address.ts",
    "src/ledger/shards.ts",
    "src/log.ts",
  ],
  "src/events/": [
    ...COMMON,
    "src/ledger/entries.ts",
    "src/ledger/events.ts",
    "src/ledger/feed/",
    "src/routes/event-body.ts",
  ],
  "src/service/": [
    "src/events/",
    ...COMMON,
    "src/routes/",
    "src/admission/",
    "src/upstream/",
    "src/settlement/",
    "src/ledger/",
    "src/config/pushed-metrics.ts",
    "src/config/tracing.ts",
    "src/metrics/",
    "src/oidc/",
    "src/traces/trace.ts",
    "src/traces/tracer.ts",
    "src/traces/metrics-push.ts",
    "src/log.ts",
  ],
  "src/workers/": [
    ...COMMON,
    "src/log.ts",
    "src/config/load.ts",
    "src/config/pushed-metrics.ts",
    "src/config/tracing.ts",
    "src/ledger/shards.ts",
    "src/service/server.ts",
    "src/service/service.ts",
  ],
  "bench/": [...COMMON, "src/ledger/", "src/embedded/", "src/upstream/http/", "package.json"],
  "src/console/": COMMON,
  "src/cli/": [
    ...COMMON,
    "src/admission/memory.ts",
    "src/config/",
    "src/ledger/",
    "src/embedded/",
    "src/routes/admin/",
    "src/routes/routing.ts",
    "src/oidc/",
    "src/presets/presets.ts",
    "src/reconciliation/",
    "src/upstream/",
    "src/usage/",
    "src/start/setup.ts",
    "src/start/banner.ts",
    "src/start/paint.ts",
    "src/demo/access.ts",
    "package.json",
  ],
}

const START = "src/main.ts"
const WORKER_START = "src/workers/main.ts"
const BENCH_START = "bench/main.ts"
const PAGE_STARTS = ["src/console/page/main.ts", "src/console/page/account/main.ts"]
const CLI_START = "src/cli/main.ts"
/** What is started, and so may do something when it is imported. */
const STARTS: readonly string[] = [START, WORKER_START, BENCH_START, CLI_START, ...PAGE_STARTS]

describe("the dependency rules", () => {
  test.each(Object.entries(ARROWS))("%s imports only what lies before it", (room, allowed) => {
    const members = sources.filter(({ path }) => isWithin(path, room))
    expect(members).not.toBeEmpty()
    const strays = members.flatMap(({ path, imports }) =>
      imports
        .filter(
          (name) =>
            /^(?:src|bench)\//.test(name) && ![room, ...allowed].some((place) => isWithin(name, place)),
        )
        .map((name) => `${path} imports ${name}`),
    )
    expect(strays).toEqual([])
  })

  test("every file belongs to a room", () => {
    const rooms = [...Object.keys(ARROWS), START]
    expect(
      sources.map(({ path }) => path).filter((path) => !rooms.some((room) => isWithin(path, room))),
    ).toEqual([])
  })

  test("only the start knows the demo, but for its address, and nobody knows the start", () => {
    const knows = (place: string) =>
      sources
        .filter(
          ({ path, imports }) =>
            !isWithin(path, place) &&
            imports.some((name) => isWithin(name, place) && name !== "src/demo/access.ts"),
        )
        .map(({ path }) => path)
    expect(knows("src/demo/")).toEqual([START])
    expect(knows(START)).toEqual([])
  })

  test.each(["bench/", "src/cli/", "src/console/"])("nobody knows %s", (room) => {
    const knowing = sources.filter(
      ({ path, imports }) => !isWithin(path, room) && imports.some((name) => isWithin(name, room)),
    )
    expect(knowing.map(({ path }) => path)).toEqual([])
  })

  test("D50: of all files only those of the console's page know the browser", () => {
    const browsing = sources.filter(({ text }) =>
      /\bdocument\.(?:query|create|body)/.test(withoutStrings(text)),
    )
    expect(browsing).not.toBeEmpty()
    expect(browsing.filter(({ path }) => !isWithin(path, "src/console/page/"))).toEqual([])
  })

  test("of the settlement only settle.ts touches the ledger's words and the call; deciding and pricing are pure", () => {
    const touching = sources.filter(
      ({ path, imports }) =>
        isWithin(path, "src/settlement/") &&
        imports.some((name) => isWithin(name, "src/ledger/") || name === "src/call/call.ts"),
    )
    expect(touching.map(({ path }) => path)).toEqual(["src/settlement/settle.ts"])
  })

  test("in the ledger nothing imports itself by way of others, not even for a type", () => {
    const imports = new Map(
      sources
        .filter(({ path }) => isWithin(path, "src/ledger/"))
        .map((file) => [file.path, file.imports.filter((name) => isWithin(name, "src/ledger/"))]),
    )
    const reached = (from: string) => {
      const seen = new Set<string>()
      const next = [...(imports.get(from) ?? [])]
      for (let name = next.pop(); name !== undefined; name = next.pop()) {
        if (seen.has(name)) continue
        seen.add(name)
        next.push(...(imports.get(name) ?? []))
      }
      return seen
    }
    expect(imports.size).toBeGreaterThan(30)
    expect([...imports.keys()].filter((path) => reached(path).has(path))).toEqual([])
  })

  test("src imports only packages that an install for production brings, and the image has no benchmark", () => {
    const manifest: { dependencies: Record<string, string> } = JSON.parse(textOf("package.json"))
    const brought = Object.keys(manifest.dependencies)
    const others = sources
      .filter(({ path }) => isWithin(path, "src/"))
      .flatMap(({ path, imports }) =>
        imports
          .filter((name) => !/^(?:src\/|package\.json$|node:|bun(?::|$))/.test(name))
          .filter((name) => !brought.some((each) => name === each || name.startsWith(`${each}/`)))
          .map((name) => `${path} imports ${name}`),
      )
    expect(others).toEqual([])
    expect(textOf("Dockerfile") + textOf(".dockerignore")).not.toContain("bench")
  })

  test("the product imports nothing of the tests", () => {
    expect(sources.filter(({ imports }) => imports.some((name) => name.startsWith("test/")))).toEqual([])
  })
})

function isWithin(path: string, place: string): boolean {
  return place.endsWith("/") ? path.startsWith(place) : path === place
}

/** Values in, values out: no framework, no clock, no disk, no network, no process. */
const PURE = [
  "src/money.ts",
  "src/wire/*.ts",
  "src/meter/{sse,output,reading,chat-*,responses-*,json-reading,large-answer,whole-answer,cost}.ts",
  "src/operations/*.ts",
  "src/settlement/{decide,price}.ts",
  "src/traces/trace.ts",
  "src/traces/{otlp,otlp-metrics,attributes}.ts",
  "src/admission/{quote,bounds,asked,describe,described,switches,tools,request-headers,catalog}.ts",
  "src/upstream/{headers,refusal}.ts",
  "src/config/{config,values,file,environment,load,otlp,pushed-metrics,tracing}.ts",
  "src/presets/*.ts",
  "src/demo/{answer,tokens}.ts",
  "src/start/{banner,paint}.ts",
  "src/cli/{completion,moment,price-list}.ts",
  "src/console/*.ts",
  "bench/{event-counter,statistics,answer-spec,prompt,audit,table,load-cost}.ts",
]
const PURE_PACKAGES = [
  "node:buffer",
  "node:util",
  "@sinclair/typebox",
  "@sinclair/typebox/value",
  "@sinclair/typebox/compiler",
  "@sinclair/typebox/system",
]
const EFFECT =
  /\bBun\.(?!(?:YAML|hash)\b)|\bprocess\.|\bfetch\(|\bsetTimeout\(|\bsetInterval\(|\bDate\.now\(|\bperformance\.|\bMath\.random\(|\bconsole\./

describe("pure files", () => {
  test.each(PURE)("%s", (pattern) => {
    const members = sources.filter(({ path }) => new Bun.Glob(pattern).match(path))
    expect(members).not.toBeEmpty()
    for (const { path, text, imports } of members) {
      const packages = imports.filter(
        (name) => !/^(?:src|bench)\//.test(name) && !PURE_PACKAGES.includes(name),
      )
      const type_only = packages.filter((name) =>
        new RegExp(`^import type [^;]*from "${name}"`, "m").test(text),
      )
      expect({ path, packages }).toEqual({ path, packages: type_only })
      expect({ path, effect: EFFECT.exec(withoutComments(text))?.[0] }).toEqual({ path, effect: undefined })
    }
  })
})

describe("importing", () => {
  test("only what is started has statements that do something", () => {
    const statement =
      /^(?:await |void |new |throw |try \{|(?:if|for|for await|while|switch) \(|[\w$.]+\(|[\w$.]+ [+-]?= )/
    const initialiser =
      /^(?:export )?(?:const|let) .* = (?:await |fetch\(|\w+Sync\(|set\w+\(|process\.|Bun\.(?:serve|spawn|listen|connect)\()/
    const loose = sources
      .filter(({ path }) => !STARTS.includes(path))
      .flatMap(({ path, text }) =>
        text
          .split("\n")
          .filter((line) => statement.test(line) || initialiser.test(line))
          .map((line) => `${path}: ${line}`),
      )
    expect(loose).toEqual([])
  })

  test("every module but those, all at once, prints nothing, keeps nothing alive and writes nothing", async () => {
    const modules = sources.map(({ path }) => path).filter((path) => !STARTS.includes(path))
    const script = modules.map((path) => `await import(${JSON.stringify(join(ROOT, path))})`).join("\n")
    const child = Bun.spawn([process.execPath, "-e", script], { cwd: ROOT, stdout: "pipe", stderr: "pipe" })
    const [out, err] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ])
    expect({ out, err, code: await child.exited }).toEqual({ out: "", err: "", code: 0 })
  })
})

describe("names and sizes", () => {
  const FORBIDDEN_FOLDERS = ["utils", "util", "helpers", "common", "types", "lib", "misc", "shared"]

  test("a file is a noun of the field: no file or folder of leftovers, no barrel", () => {
    const named = [...sources, ...tests].filter(({ path }) => {
      const parts = path.replace(/\.ts$/, "").split("/")
      return parts.some((part) => FORBIDDEN_FOLDERS.includes(part)) || basename(path) === "index.ts"
    })
    expect(named.map(({ path }) => path)).toEqual([])
  })

  test("a type has a name of its own", () => {
    const declared = sources
      .filter(({ path }) => isWithin(path, "src/"))
      .flatMap(({ path, text }) =>
        [...text.matchAll(/^(?:export )?(?:abstract )?(?:interface|type|class) (\w+)/gm)].map(([, name]) => ({
          name,
          path,
        })),
      )
    const by_name = Map.groupBy(declared, ({ name }) => name)
    const shared = [...by_name.values()].filter((places) => places.length > 1)
    expect(shared.map((places) => places.map(({ name, path }) => `${name} in ${path}`))).toEqual([])
  })

  const MAX_LINES = 500
  test(`a file of the product has fewer than ${MAX_LINES} lines`, () => {
    const long = sources.filter(({ text }) => text.split("\n").length > MAX_LINES)
    expect(long.map(({ path, text }) => `${path}: ${text.split("\n").length}`)).toEqual([])
  })

  test("the top level holds what the design names, and what a tool insists on", () => {
    const allowed = [
      ..."package.json tsconfig.json bunfig.toml bun.lock biome.json Dockerfile LICENSE".split(" "),
      ..."README.md SECURITY.md CONTRIBUTING.md CHANGELOG.md".split(" "),
    ]
    const found = filesMatching("*").filter((path) => !path.startsWith("."))
    const ignored = ["tollgate.yaml"]
    expect(
      found.filter((path) => ![...allowed, ...ignored].includes(path) && !path.endsWith(".log")),
    ).toEqual([])
  })
})

describe("what no file says", () => {
  const rows: readonly [name: string, pattern: RegExp][] = [
    ["the type any", /(?::|<|\bas) ?any\b|\bany\[\]/],
    ["a cast through unknown", /\bas unknown as\b/],
    ["a silenced type error", /@ts-(?:ignore|expect-error|nocheck)/],
    ["work left for later", /\b(?:TODO|FIXME|XXX|HACK)\b/],
    ["an enum or a namespace", /^(?:export )?(?:const )?(?:enum|namespace) /m],
    ["a default export", /^export default /m],
    ["a number in place of money", /\bparseFloat\(/],
  ]
  test.each(rows)("%s", (_name, pattern) => {
    const found = [...sources, ...tests].filter(({ text }) => pattern.test(withoutStrings(text)))
    expect(found.map(({ path, text }) => `${path}: ${pattern.exec(withoutStrings(text))?.[0]}`)).toEqual([])
  })

  test("a test that only runs alone, or is left out without a condition", () => {
    const pattern = /\b(?:test|describe|it)\.(?:only|todo)\b|\b(?:test|describe)\.skip\(/
    expect(tests.filter(({ text }) => pattern.test(text)).map(({ path }) => path)).toEqual([])
  })

  test("the host of a package registry, in any text file of the repository", () => {
    const pattern = new RegExp(
      ["//[^/]*registry", "npmjs\\.", "yarnpkg\\.", "jsr\\.io", "unpkg\\.", "jsdelivr\\."].join("|"),
      "i",
    )
    const files = [
      ...filesMatching("{src,bench,test,drizzle,docs,deploy,patches,.github}/**/*"),
      ...filesMatching("*.{json,toml,md,lock}"),
      ...filesMatching("{Dockerfile,.dockerignore,.gitignore,.ci/*}"),
    ].filter((path) => path !== SELF)
    expect(files.length).toBeGreaterThan(100)
    expect(files.filter((path) => pattern.test(textOf(path)))).toEqual([])
  })

  test("the lock file names no host at all", () => {
    expect(textOf("bun.lock")).not.toMatch(/https?:/)
  })

  test("versions of dependencies are exact", () => {
    const manifest: Record<string, Record<string, string>> = JSON.parse(textOf("package.json"))
    const versions = ["dependencies", "devDependencies", "optionalDependencies"].flatMap((kind) =>
      Object.entries(manifest[kind] ?? {}),
    )
    expect(
      versions.filter(([, version]) => !/^(?:npm:@?[\w./-]+@)?\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version)),
    ).toEqual([])
  })
})

/** Rules and rulings that no test names, each with the reason why. */
const UNTESTED: Readonly<Record<string, string>> = {}

describe("every rule of the specification and every ruling is named by a test", () => {
  const names = new Set(
    tests.flatMap(({ text }) => {
      const strings = withoutComments(text)
      return [...strings.matchAll(/\bD\d+\b|\brule \d\b/g)].map(([name]) => name)
    }),
  )
  const decisions = textOf("docs/decisions.md")
  const rules = [...decisions.matchAll(/^(\d)\. /gm)].map(([, number]) => `rule ${number}`)
  const sections = decisions.split(/^## (?=D)/m).slice(1)
  const rulings = sections.map((section) => /^D\d+/.exec(section)?.[0] ?? section)

  test("there are six rules, and the rulings stand in the order of their numbers, each once", () => {
    const numbers = rulings.map((ruling) => Number(ruling.slice(1)))
    expect(rules).toHaveLength(6)
    expect(numbers).toEqual([...new Set(numbers)].sort((one, other) => one - other))
  })

  test("every ruling has a title, its reason, and what a reader may rely on", () => {
    const bare = sections.filter(
      (section) =>
        !/^D\d+\. \S.*\n\n\S/.test(section) ||
        !/^\*\*Why:\*\* \S/m.test(section) ||
        !/^\*\*Rely on:\*\* \S/m.test(section),
    )
    expect(bare.map((section) => section.slice(0, 40))).toEqual([])
  })

  test.each([...rules, ...rulings])("%s", (name) => {
    expect({ name, tested: names.has(name) }).toEqual({ name, tested: !(name in UNTESTED) })
  })

  test("neither the product nor a test names a ruling that is not written down", () => {
    const said = [...sources, ...tests].flatMap(({ text }) => text.match(/\bD\d+\b|\brule \d\b/g) ?? [])
    expect(said.filter((name) => ![...rules, ...rulings].includes(name))).toEqual([])
  })
})

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|(?<![:"'`\w])\/\/.*$/gm, "")
}

/** Code alone, so that words in a sentence are no offence. */
function withoutStrings(text: string): string {
  return text
    .replace(/"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g, '""')
    .replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, (comment) =>
      /TODO|FIXME|XXX|HACK|@ts-/.test(comment) ? comment : "",
    )
}
