import { Type } from "@sinclair/typebox"
import { openBooks } from "../books.ts"
import { configOf } from "../config/snapshot.ts"
import { openLog } from "../log.ts"
import { Service } from "../service.ts"
import { UpstreamBody } from "../wire/upstreams.ts"
import { checked, Line } from "./line.ts"
import { type Assignment, Order, type Question } from "./order.ts"

/** One of the processes that share a port: it does what its parent says, and drains when it has none any more. */

/** Longer than the parent waits for the slowest worker. */
const ALL_MS = 3_000

const opened = Promise.withResolvers<Service>()
let has_begun = false

const line = new Line({ send: (message) => process.send?.(message), answer })

process.on("message", (message: unknown) => line.take(message))
process.on("disconnect", () => {
  line.lose(new Error("the parent process has ended"))
  leave()
})
process.on("SIGTERM", leave)
// A terminal's signals, which the parent hears too: what becomes of the workers is for it to say.
for (const signal of ["SIGINT", "SIGHUP"] as const) process.on(signal, () => {})
if (process.send === undefined) {
  console.error("tollgate: a worker cannot be started on its own: use bun run start --workers N")
  process.exit(1)
}

async function answer(asked: unknown): Promise<string> {
  const order = checked(Order, asked)
  switch (order.what) {
    case "begin":
      has_begun = true
      open(order.assignment).then(opened.resolve, opened.reject)
      await opened.promise
      return ""
    case "reload":
      await (await opened.promise).reload(configOf(order.snapshot, process.env))
      return ""
    case "metrics":
      return (await opened.promise).printMetrics()
    case "upstreams":
      return JSON.stringify((await opened.promise).standings())
    case "drain":
      drain(await opened.promise)
      return ""
    case "hurry":
      drain(await opened.promise)
      ;(await opened.promise).shutdown.signal()
      return ""
  }
}

async function open(assignment: Assignment): Promise<Service> {
  const { number, address, snapshot, log_level, ...rest } = assignment
  const log = openLog(log_level, { worker: number })
  process.on("unhandledRejection", (error) =>
    log.error({ err: error }, "unhandled error: the gateway keeps running"),
  )
  const database = await openBooks(address)
  try {
    return await Service.open({
      ...rest,
      config: configOf(snapshot, process.env),
      database,
      log,
      worker: { number, printAll, standingsOfAll },
      closeAfter: () => database.close(),
      exit: process.exit,
    })
  } catch (error) {
    await database.close()
    throw error
  }
}

/** Where the parent does not answer, the metrics of this worker, which say that they are. */
async function printAll(): Promise<string> {
  try {
    return await askAll({ what: "metrics" })
  } catch {
    return (await opened.promise).printMetrics()
  }
}

/** Where the parent does not answer, what this worker finds. */
async function standingsOfAll(): Promise<readonly UpstreamBody[]> {
  try {
    return checked(Type.Array(UpstreamBody), JSON.parse(await askAll({ what: "upstreams" })))
  } catch {
    return (await opened.promise).standings()
  }
}

function askAll(question: Question): Promise<string> {
  return line.ask(question, ALL_MS)
}

/** Drains once it serves; a worker that never will just ends. */
function leave(): void {
  if (has_begun) opened.promise.then(drain, () => process.exit(1))
  else process.exit(1)
}

function drain({ shutdown }: Service): void {
  if (!shutdown.begun) shutdown.signal()
}
