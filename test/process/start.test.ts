import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { emptyDatabase, type FreshDatabase, freshDatabase } from "../support/database.ts"
import { configFor } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import type { Variables } from "./gateway-process.ts"
import { databaseVariables, Workplace } from "./workplace.ts"

describe("a start that cannot be is refused in one sentence, with exit code 1, and leaves nothing", () => {
  let place: Workplace
  let fresh: FreshDatabase
  /** Accepts every connection and says nothing. */
  const mute = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } })

  beforeAll(async () => {
    fresh = await emptyDatabase()
  })
  afterAll(async () => {
    mute.stop(true)
    await fresh.drop()
  })
  beforeEach(() => {
    place = new Workplace()
  })
  afterEach(() => place.clear())

  interface Refused {
    readonly name: string
    /** The file that is there; none without. */
    readonly config?: object
    readonly variables?: () => Variables
    readonly complaint: string | RegExp
  }
  const unreachable = { DATABASE_URL: "postgres://tollgate:s3cret@127.0.0.1:1/ledger" }
  const rows: readonly Refused[] = [
    {
      name: "D37 DATABASE_URL without a configuration",
      variables: () => unreachable,
      complaint:
        "DATABASE_URL is set, but there is no configuration: set TOLLGATE_CONFIG, or create tollgate.yaml",
    },
    {
      name: "a variable that is wrong",
      variables: () => ({ PORT: "http" }),
      complaint: "PORT: expected an integer from 0 to 65535",
    },
    {
      name: "a file that is not there, by its name",
      variables: () => ({ TOLLGATE_CONFIG: "elsewhere.yaml" }),
      complaint: /elsewhere\.yaml/,
    },
    {
      name: "a file that is wrong, by its name and the path of the key",
      config: { models: [], limits: { in_flight: "many" } },
      complaint: "tollgate.yaml: limits.in_flight: expected an integer from 1 to 60000",
    },
    {
      name: "a data directory that cannot be made",
      config: configFor("http://127.0.0.1:1"),
      variables: () => ({ ...databaseVariables(fresh.address), TOLLGATE_DATA_DIR: "/dev/null/data" }),
      complaint: "cannot create the data directory /dev/null/data (TOLLGATE_DATA_DIR): not a directory",
    },
    {
      name: "a database that cannot be reached",
      config: configFor("http://127.0.0.1:1"),
      variables: () => unreachable,
      complaint: "cannot use the database: connect ECONNREFUSED 127.0.0.1:1",
    },
    {
      name: "a database that lets one in and never answers",
      config: configFor("http://127.0.0.1:1"),
      variables: () => ({ DATABASE_URL: `postgres://tollgate:s3cret@127.0.0.1:${mute.port}/ledger` }),
      complaint: "cannot use the database: it did not answer within 4 s",
    },
    {
      name: "a database that does not exist",
      config: configFor("http://127.0.0.1:1"),
      variables: () => ({ ...databaseVariables(fresh.address), DATABASE_URL: "postgres:///nowhere" }),
      complaint: 'cannot use the database: database "nowhere" does not exist',
    },
  ]
  for (const { name, config, variables, complaint } of rows) {
    test(name, async () => {
      if (config !== undefined) place.configure(config)
      const gateway = place.spawn(variables?.())
      expect(await gateway.exited).toBe(1)
      const sentence = /^tollgate: ([^\n]+)\n$/.exec(gateway.complaint)?.[1]
      if (typeof complaint === "string") expect(sentence).toBe(complaint)
      else expect(sentence).toMatch(complaint)
      expect(gateway.printed).toBe("")
      expect(sentence).not.toContain("s3cret")
      expect(place.files()).toEqual(config === undefined ? [] : ["tollgate.yaml"])
    })
  }
})

describe("D27 a data directory belongs to one gateway, also with DATABASE_URL: its spool is there", () => {
  let place: Workplace
  let fresh: FreshDatabase
  beforeAll(async () => {
    fresh = await freshDatabase()
    place = new Workplace()
    place.configure(configFor("http://provider.test", { proxy: "http://gateway:s3cret@127.0.0.1:1" }))
  })
  afterAll(async () => {
    await place.clear()
    await fresh.drop()
  })

  test.each([[], ["--workers", "2"]])(
    "a second start on it is refused in a sentence (%s %s)",
    async (...args) => {
      const first = await place.start(databaseVariables(fresh.address), { args })
      const second = place.spawn(databaseVariables(fresh.address), { args })
      expect(await second.exited).toBe(1)
      expect(second.complaint).toBe(
        `tollgate: another gateway (pid ${first.pid}) already uses ${place.data_dir}: stop it, or use another data directory\n`,
      )
      expect(second.printed).toBe("")
      expect((await operatorOf(first.url).audit()).violations).toEqual([])
      // D59: the runtime's fetch is used for proxies, and has a limit.
      expect(first.printed).toContain("BUN_CONFIG_MAX_HTTP_REQUESTS is not set")
      expect(first.printed).not.toContain("s3cret")
      first.signal("SIGTERM")
      expect(await first.exited).toBe(0)
      expect(place.files()).toEqual(["tollgate.yaml"])
    },
  )

  test("one that was killed has given it up", async () => {
    const killed = await place.start(databaseVariables(fresh.address))
    await killed.kill()
    const next = await place.start(databaseVariables(fresh.address))
    next.signal("SIGTERM")
    expect(await next.exited).toBe(0)
  })
})
