import { Type } from "@sinclair/typebox"
import { configOf } from "../config/load.ts"
import { openShards } from "../ledger/shards.ts"
import { openLog } from "../log.ts"
import { openService, type Service } from "../service/service.ts"
import { UpstreamBody } from "../wire/statistics.ts"
import { type Assignment, Command, checked, openChannel, type WorkerQuestion } from "./channel.ts"

/** A worker: one of the processes that share a port. Its parent sends it commands; it drains when the parent exits. */

/** Longer than the parent waits for the slowest worker. */
const ALL_MS = 3_000

const opened = Promise.withResolvers<Service>()
let has_begun = false

const channel = openChannel({ send: (message) => process.send?.(message), answer })

process.on("message", (message: unknown) => channel.receive(message))
process.on("disconnect", () => {
  channel.disconnect(new Error("the parent process has ended"))
  drainOrExit()
})
process.on("SIGTERM", drainOrExit)
// A terminal sends these to the whole process group. The parent gets them too, and decides what the workers do.
for (const signal of ["SIGINT", "SIGHUP"] as const) process.on(signal, () => {})
if (process.send === undefined) {
  console.error("tollgate: a worker cannot be started on its own: use bun run start --workers N")
  process.exit(1)
}

async function answer(question: unknown): Promise<string> {
  const command = checked(Command, question)
  switch (command.what) {
    case "begin":
      has_begun = true
      open(command.assignment).then(opened.resolve, opened.reject)
      await opened.promise
      return ""
    case "reload":
      await (await opened.promise).reload(configOf(command.snapshot, process.env))
      return ""
    case "metrics":
      return (await opened.promise).printMetrics()
    case "upstreams":
      return JSON.stringify((await opened.promise).upstreamStatuses())
    case "drain":
      drain(await opened.promise)
      return ""
    case "stop":
      drain(await opened.promise)
      ;(await opened.promise).shutdown.signal()
      return ""
  }
}

async function open(assignment: Assignment): Promise<Service> {
  const { number, shards: addresses, snapshot, log_level, ...rest } = assignment
  const log = openLog(log_level, { worker: number })
  process.on("unhandledRejection", (error) =>
    log.error({ err: error }, "unhandled error: the gateway keeps running"),
  )
  const shards = await openShards(addresses)
  const closeAll = async () => void (await Promise.all(shards.map(({ database }) => database.close())))
  try {
    return await openService({
      ...rest,
      config: configOf(snapshot, process.env),
      shards,
      log,
      worker: { number, printAll, upstreamStatusesOfAll },
      closeAfter: closeAll,
      exit: process.exit,
    })
  } catch (error) {
    await closeAll()
    throw error
  }
}

/** If the parent does not answer, only the metrics of this worker; their `worker` label shows it. */
async function printAll(): Promise<string> {
  try {
    return await askAll({ what: "metrics" })
  } catch {
    return (await opened.promise).printMetrics()
  }
}

/** If the parent does not answer, only what this worker knows. */
async function upstreamStatusesOfAll(): Promise<readonly UpstreamBody[]> {
  try {
    return checked(Type.Array(UpstreamBody), JSON.parse(await askAll({ what: "upstreams" })))
  } catch {
    return (await opened.promise).upstreamStatuses()
  }
}

function askAll(question: WorkerQuestion): Promise<string> {
  return channel.ask(question, ALL_MS)
}

/** Drains, once the worker serves. One that never will exits immediately. */
function drainOrExit(): void {
  if (has_begun) opened.promise.then(drain, () => process.exit(1))
  else process.exit(1)
}

function drain({ shutdown }: Service): void {
  if (!shutdown.begun) shutdown.signal()
}
