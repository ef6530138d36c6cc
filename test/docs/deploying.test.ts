import { describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Config } from "../../src/config/config.ts"
import { loadConfig } from "../../src/config/load.ts"
import { parseDockerfile } from "../docker/image.ts"
import { testFolder } from "../support/folder.ts"
import { textOf } from "../support/repository.ts"
import { blocksOf, mapping } from "./blocks.ts"
import { blocksToRun } from "./left-out.ts"
import { referenceApp } from "./reference-app.ts"

/** docs/deploying.md and deploy/: every variable, port, path and time there is what the code says. */

const PAGE = "docs/deploying.md"
const folder = testFolder()
const blocks = blocksOf(PAGE)
const block = (language: string, mark = ""): string =>
  blocks.find((one) => one.language === language && one.text.includes(mark))?.text ?? "none"
const load = (text: string): Config =>
  loadConfig(text, { env: { OPENAI_API_KEY: "sk-openai" }, readFile: () => "sk-openai" })

const defaults = load(block("yaml"))
const dockerfile = parseDockerfile(textOf("Dockerfile"))
const image = Object.fromEntries(
  dockerfile
    .filter(({ word }) => word === "ENV")
    .flatMap(({ rest }) =>
      [...rest.matchAll(/(\w+)=(\S+)/g)].map(([, name = "", value = ""]) => [name, value]),
    ),
)
const [uid = "", gid = ""] = dockerfile.find(({ word }) => word === "USER")?.rest.split(":") ?? []

/** What the start reads, secrets also from a file, what Bun does, and what the command line does. */
const read = new Set([
  ...["HOST", "PORT", "TOLLGATE_CONFIG", "TOLLGATE_DATA_DIR", "LOG_LEVEL"],
  ...["DATABASE_URL", "TOLLGATE_ADMIN_TOKEN", "OPENAI_API_KEY"].flatMap((name) => [name, `${name}_FILE`]),
  "TOLLGATE_URL",
  ...["NODE_ENV", "BUN_RUNTIME_TRANSPILER_CACHE_PATH", "BUN_CONFIG_MAX_HTTP_REQUESTS"],
])

/** Seconds that a shutdown may take before it is cut: both waits, and what a flush and the ledger need. */
const stopping_s = ({ shutdown }: Config) => (shutdown.ready_delay_ms + shutdown.drain_ms) / 1000 + 10

test("the variables above are those that the code reads", () => {
  const code = textOf("src/config/environment.ts")
  const known = [...code.matchAll(/\b(?:plain|secret)\("([A-Z_]+)"\)/g)].map(([, name = ""]) => name)
  expect(known.filter((name) => !read.has(name) && !name.startsWith("OTEL"))).toEqual([])
})

describe("deploy/tollgate.service", () => {
  const text = textOf("deploy/tollgate.service")
  const values = (key: string) =>
    [...text.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map(([, value = ""]) => value)
  const env = new Map(
    values("Environment").map((line) => [line.split("=")[0] ?? "", line.slice(line.indexOf("=") + 1)]),
  )

  test.skipIf(!existsSync("/usr/bin/systemd-analyze"))("is a unit that systemd takes", () => {
    const unit = join(folder, "tollgate.service")
    writeFileSync(unit, text.replace("/usr/local/bin/bun", process.execPath))
    const { status, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", unit], {
      encoding: "utf8",
    })
    expect({
      status,
      complaints: stderr.split("\n").filter((line) => line.includes("tollgate.service")),
    }).toEqual({
      status: 0,
      complaints: [],
    })
  })

  test("sets what the image sets, and nothing that is not read", () => {
    expect([...env.keys()].filter((name) => !read.has(name))).toEqual([])
    for (const name of [
      "NODE_ENV",
      "BUN_RUNTIME_TRANSPILER_CACHE_PATH",
      "BUN_CONFIG_MAX_HTTP_REQUESTS",
      "PORT",
    ]) {
      expect({ name, value: env.get(name) }).toEqual({ name, value: image[name] })
    }
    expect(env.get("TOLLGATE_DATA_DIR")).toBe(`/var/lib/${values("StateDirectory")[0]}`)
    expect(values("ExecStart")).toEqual(["/usr/local/bin/bun src/main.ts"])
  })

  test("D34: signals the gateway alone, and waits longer than a drain", () => {
    expect([values("KillMode"), values("KillSignal")]).toEqual([["mixed"], ["SIGTERM"]])
    const minutes = Number(/^(\d+)min$/.exec(values("TimeoutStopSec")[0] ?? "")?.[1])
    expect(minutes * 60).toBeGreaterThan(stopping_s(defaults))
  })
})

describe("deploy/compose.yaml", () => {
  const file = mapping(Bun.YAML.parse(textOf("deploy/compose.yaml")))
  const services = mapping(file.services)
  const gateway = mapping(services.tollgate)
  const postgres = mapping(services.postgres)

  test("mounts every secret that a variable names, and writes only where the image does", () => {
    const env = mapping(gateway.environment)
    expect(Object.keys(env).filter((name) => !read.has(name))).toEqual([])
    const named = Object.values({ ...env, ...mapping(postgres.environment) })
      .map(String)
      .filter((value) => value.startsWith("/run/secrets/"))
      .map((value) => value.slice("/run/secrets/".length))
    expect(named.sort()).toEqual([...list(gateway.secrets), ...list(postgres.secrets)].map(String).sort())
    expect(Object.keys(mapping(file.secrets)).sort()).toEqual(named.sort())
    expect(list(gateway.volumes)).toContain(`spool:${image.TOLLGATE_DATA_DIR}`)
    expect(list(gateway.volumes)).toContain(`./tollgate.yaml:${env.TOLLGATE_CONFIG}:ro`)
    expect(list(gateway.tmpfs)).toEqual(["/tmp"])
    expect(gateway.read_only).toBe(true)
  })

  test("publishes the image's port to this machine, and waits longer than a drain", () => {
    expect(list(gateway.ports)).toEqual([`127.0.0.1:8080:${image.PORT}`, "127.0.0.1:9090:9090"])
    const minutes = Number(/^(\d+)m$/.exec(String(gateway.stop_grace_period))?.[1])
    expect(minutes * 60).toBeGreaterThan(stopping_s(defaults))
  })
})

describe("deploy/kubernetes.yaml", () => {
  const objects = list(Bun.YAML.parse(textOf("deploy/kubernetes.yaml"))).map(mapping)
  const of = (kind: string, name = "tollgate") =>
    mapping(objects.find((one) => one.kind === kind && mapping(one.metadata).name === name))
  const set = mapping(of("StatefulSet").spec)
  const pod = mapping(mapping(set.template).spec)
  const [container = {}] = list(pod.containers).map(mapping)
  const mounts = new Map(
    list(container.volumeMounts).map((mount) => [mapping(mount).mountPath, mapping(mount).name]),
  )
  const config = load(String(mapping(of("ConfigMap").data)["tollgate.yaml"]))
  const ports = new Map(
    list(container.ports).map((port) => [mapping(port).name, mapping(port).containerPort]),
  )

  test("its configuration is one, and listens where the ports are", () => {
    expect(config.models).not.toBeEmpty()
    expect(ports).toEqual(
      new Map([
        ["http", Number(image.PORT)],
        ["admin", config.admin?.port],
      ]),
    )
    expect(list(mapping(of("Service").spec).ports)).toEqual([{ name: "http", port: 80, targetPort: "http" }])
    expect(list(mapping(of("Service", "tollgate-admin").spec).ports)).toEqual([
      { name: "admin", port: config.admin?.port, targetPort: "admin" },
    ])
    expect(set.serviceName).toBe("tollgate-admin")
    expect(config.admin?.open_metrics).toBe(true)
    const annotations = mapping(mapping(mapping(set.template).metadata).annotations)
    expect(annotations["prometheus.io/port"]).toBe(String(config.admin?.port))
  })

  test("every selector selects the pods", () => {
    const labels = mapping(mapping(mapping(set.template).metadata).labels)
    const selectors = [
      mapping(of("Service").spec).selector,
      mapping(of("Service", "tollgate-admin").spec).selector,
      mapping(mapping(of("NetworkPolicy").spec).podSelector).matchLabels,
      mapping(mapping(mapping(of("PodDisruptionBudget").spec).selector)).matchLabels,
      mapping(set.selector).matchLabels,
    ]
    expect(selectors).toEqual(selectors.map(() => labels))
  })

  test("names only variables that are read, and files that are mounted", () => {
    const env = list(container.env).map(mapping)
    expect(env.map(({ name }) => String(name)).filter((name) => !read.has(name))).toEqual([])
    const url = env.find(({ name }) => name === "TOLLGATE_URL")?.value
    expect(url).toBe(`http://127.0.0.1:${config.admin?.port}`)
    const files = env.filter(({ name }) => name !== "TOLLGATE_URL")
    const folders = files.map(({ value }) => String(value).slice(0, String(value).lastIndexOf("/")))
    expect(folders.filter((folder) => !mounts.has(folder))).toEqual([])
    const volumes = [
      ...list(pod.volumes),
      ...list(set.volumeClaimTemplates).map((claim) => mapping(claim).metadata),
    ]
    expect(volumes.map((volume) => mapping(volume).name).sort()).toEqual([...mounts.values()].sort())
    expect(mounts.get(image.TOLLGATE_DATA_DIR)).toBe("data")
    expect(mounts.get("/tmp")).toBe("temporary")
    const secret = env.map(({ value }) => String(value)).filter((value) => value.startsWith("/run/secrets/"))
    for (const path of secret)
      expect(block("sh", "kubectl create secret")).toContain(`--from-file=${path.split("/").at(-1)}`)
  })

  test("runs as the image's user on a file system it cannot write to", () => {
    expect(mapping(pod.securityContext)).toMatchObject({
      runAsUser: Number(uid),
      runAsGroup: Number(gid),
      fsGroup: Number(gid),
    })
    expect(mapping(container.securityContext)).toMatchObject({
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
    })
  })

  test("D34: asks what the gateway answers, and waits longer than a drain", () => {
    const routes = referenceApp().routes.map(({ path }) => path)
    const asked = ["startupProbe", "readinessProbe", "livenessProbe"].map((name) =>
      mapping(mapping(container[name]).httpGet),
    )
    expect(asked.filter(({ path, port }) => !routes.includes(String(path)) || !ports.has(port))).toEqual([])
    expect(asked.map(({ path }) => path)).toEqual(["/livez", "/readyz", "/livez"])
    expect(config.shutdown.ready_delay_ms).toBeGreaterThan(3_000 * 2)
    expect(Number(pod.terminationGracePeriodSeconds)).toBeGreaterThan(stopping_s(config))
    expect(block("sh", "docker run")).toContain(`--stop-timeout ${pod.terminationGracePeriodSeconds} `)
  })
})

describe("docs/deploying.md", () => {
  /** Blocks of other languages, by a word of theirs: what checks them. */
  const CHECKED: Readonly<Record<string, string>> = {
    "accounts = {": "test/docs/terraform.test.ts runs it where terraform is",
    "CREATE ROLE": "test/ledger/fitness.test.ts runs it",
    proxy_pass: "test/abuse/proxies.test.ts runs it; its limits are compared below",
    reverse_proxy: "test/abuse/proxies.test.ts runs it; its limits are compared below",
    "[pgbouncer]": "needs PgBouncer; test/faults/pooler.test.ts runs it like this",
  }

  test("every block is read, or left out for a reason: its commands need more than one machine has", () => {
    expect(blocksToRun(PAGE)).toEqual([])
    const left = blocks.filter(
      ({ language, text }) =>
        !["sh", "yaml"].includes(language) && !Object.keys(CHECKED).some((word) => text.includes(word)),
    )
    expect(left).toEqual([])
    expect(Object.keys(CHECKED).filter((word) => !blocks.some(({ text }) => text.includes(word)))).toEqual([])
    expect(defaults.models).toHaveLength(1)
  })

  test("the paths of the installation are those of the unit", () => {
    const unit = textOf("deploy/tollgate.service")
    for (const path of ["/etc/tollgate", "/opt/tollgate", "/var/lib/tollgate", "/etc/tollgate/admin-token"]) {
      expect([unit.includes(path), block("sh", "useradd").includes(path)]).toEqual([true, true])
    }
  })

  test("what stands in front waits and lets through at least as much as the gateway does", () => {
    const nginx = block("nginx")
    const longest_ms = Math.max(
      ...defaults.models.flatMap(({ routes }) => routes.map(({ upstream }) => upstream.timeouts.total_ms)),
    )
    expect(Number(/proxy_read_timeout (\d+)m;/.exec(nginx)?.[1]) * 60_000).toBeGreaterThan(longest_ms)
    expect(Number(/client_max_body_size (\d+)m;/.exec(nginx)?.[1]) * 1_048_576).toBeGreaterThanOrEqual(
      defaults.limits.body_bytes,
    )
    expect(block("caddyfile")).toContain(`max_size ${defaults.limits.body_bytes / 1_048_576}MiB`)
    for (const front of [nginx, block("caddyfile")]) expect(front).toContain(`127.0.0.1:${image.PORT}`)
  })

  test("the version of the image is the one of the package", () => {
    const { version }: { version: string } = JSON.parse(textOf("package.json"))
    expect(block("sh", "docker run")).toContain(`tollgate:${version}`)
    expect(textOf("deploy/kubernetes.yaml")).toContain(`image: tollgate:${version}`)
  })
})

function list(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new Error(`no list: ${JSON.stringify(value)}`)
  return value
}

test("D73 the pair that Patroni keeps loses nothing while it has a standby, and serves without one", () => {
  const file = mapping(Bun.YAML.parse(textOf("deploy/patroni/patroni.yaml")))
  expect(mapping(mapping(file.bootstrap).dcs)).toMatchObject({
    synchronous_mode: true,
    synchronous_mode_strict: false,
    maximum_lag_on_failover: 0,
  })
})
