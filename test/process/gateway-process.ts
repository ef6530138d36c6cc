import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { WORKER_FILE } from "../support/programs.ts"

export type Variables = Readonly<Record<string, string>>

/**
 * A gateway in a process of its own. It belongs to the process group of the tests, with which it ends whatever becomes of
 * them, unless it is to have a group of its own, as it has in a terminal.
 */
export class GatewayProcess {
  /** Resolves when the process is gone and all it said was read: its exit code, or the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals>
  readonly #child: ChildProcess
  readonly #own_group: boolean
  readonly #looking = new Set<() => void>()
  #printed = ""
  #complaint = ""
  #ended = false

  constructor(folder: string, env: Variables, command: readonly string[], own_group: boolean) {
    const child = spawn(process.execPath, [...command], {
      cwd: folder,
      env: { ...env },
      detached: own_group,
      stdio: ["ignore", "pipe", "pipe"],
    })
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#printed += text
      this.#look()
    })
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#complaint += text
    })
    this.#child = child
    this.#own_group = own_group
    this.exited = once(child, "close").then(([code, signal]) => {
      this.#ended = true
      this.#look()
      return code ?? signal
    })
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error("no gateway was spawned")
    return this.#child.pid
  }

  /** How long its main thread was ready to run and the machine let others run, in milliseconds. */
  get waited_ms(): number {
    const [, waited_ns] = readFileSync(`/proc/${this.pid}/schedstat`, "utf8").split(" ")
    return Number(waited_ns) / 1e6
  }

  /** The processor time it has used, in milliseconds. */
  get cpu_ms(): number {
    const [ran_ns] = readFileSync(`/proc/${this.pid}/schedstat`, "utf8").split(" ")
    return Number(ran_ns) / 1e6
  }

  /** The most memory that it ever had. */
  get peak_mib(): number {
    const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.pid}/status`, "utf8")) ?? []
    return Number(kib) / 1024
  }

  get workers(): number[] {
    const children = spawnSync("pgrep", ["-P", String(this.pid), "-f", WORKER_FILE], {
      encoding: "utf8",
    }).stdout
    return children.split("\n").filter(Boolean).map(Number)
  }

  get url(): string {
    const url = /^tollgate listening on (http:\S+) \(pid \d+\)$/m.exec(this.#printed)?.[1]
    if (url === undefined) throw new Error("the gateway did not say where it listens")
    return url
  }

  /** All it printed on standard output, its log too. */
  get printed(): string {
    return this.#printed
  }

  /** All it printed on standard error. */
  get complaint(): string {
    return this.#complaint
  }

  /** Resolves as soon as it has printed `mark`, from the character `from` on; rejects when it ends without. */
  prints(mark: string, from = 0): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const is_there = this.#printed.includes(mark, from)
        if (!is_there && !this.#ended) return
        this.#looking.delete(look)
        if (is_there) resolve()
        else reject(new Error(`the gateway ended:\n${this.#printed}\n${this.#complaint}`))
      }
      this.#looking.add(look)
      look()
    })
  }

  signal(name: NodeJS.Signals): void {
    process.kill(this.pid, name)
  }

  /** As a terminal does at Ctrl-C: to the gateway and all of its process group. */
  signalGroup(name: NodeJS.Signals): void {
    if (!this.#own_group) throw new Error("this gateway is in the process group of the tests")
    process.kill(-this.pid, name)
  }

  /** Ends it, if it lives. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL")
    await this.exited
  }

  #look(): void {
    for (const look of this.#looking) look()
  }
}
