import { expect, test } from "bun:test"
import { needRestart } from "../../src/start/setup.ts"
import { and, load } from "./small.ts"

const started = load(and({}))

test.each([
  ["nothing", {}, []],
  [
    "what holds at once",
    { limits: { in_flight: 5 }, stream: { stall: "9s" }, shutdown: { drain: "9s" } },
    [],
  ],
  ["the same in other words", { lease: { renew: "5000ms" }, workers: 1 }, []],
  ["the lease", { lease: { expire: "30s" } }, ["lease"]],
  ["the operators' address", { admin: { host: "127.0.0.1", port: 9000 } }, ["admin"]],
  ["all of it", { workers: 2, lease: { renew: "1s" }, admin: { port: 9000 } }, ["admin", "lease", "workers"]],
])("a restart is needed after a change of %s: %j", (_, changes, sections) => {
  expect(needRestart(started, load(and(changes)))).toEqual(sections)
})
