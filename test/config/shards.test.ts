// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the configuration writes its references like this
import { describe, expect, test } from "bun:test"
import { ConfigError } from "../../src/config/config.ts"
import { readEnvironment } from "../../src/config/environment.ts"
import { loadConfig } from "../../src/config/load.ts"
import { configuredShards, refuseOtherShards } from "../../src/start/setup.ts"
import { and, load, refusal, sources } from "./small.ts"

const URL = "postgres://tollgate:s3cret@db1:5432/tollgate"
const shards = (...list: readonly object[]) => and({ shards: list })

describe("D74 the shards of the configuration", () => {
  test("are none by default", () => {
    expect(load(and({})).shards).toEqual([])
  })

  test("take their URL from the environment, and are open in the schema tollgate unless they say otherwise", () => {
    const text = shards(
      { name: "main", url: "${DB1}" },
      { name: "eu-2", url: "${DB1}", schema: "books_2", open: false },
    )
    expect(loadConfig(text, { ...sources, env: { DB1: URL } }).shards).toEqual([
      { name: "main", url: URL, schema: "tollgate", open: true },
      { name: "eu-2", url: URL, schema: "books_2", open: false },
    ])
  })

  const NAME = "expected a name of up to 32 characters (a-z, 0-9, -) that starts with a letter"
  const SCHEMA =
    "expected a name of up to 63 characters (a-z, 0-9, _) that does not start with a digit or pg_, and is not public, information_schema or drizzle"
  test.each([
    ["no shard", shards(), "shards: expected a list of at least one shard, each with a name and a url"],
    ["no name", shards({ url: URL }), `shards[0].name: ${NAME}`],
    ["a name that could leave its folder", shards({ name: "../a", url: URL }), `shards[0].name: ${NAME}`],
    ["no URL", shards({ name: "a" }), "shards[0].url: expected a string"],
    [
      "a URL of something else",
      shards({ name: "a", url: "https://:s3cret@db1" }),
      "shards[0].url: expected a URL such as postgres://user:password@host:5432/database",
    ],
    [
      "a variable that is not set",
      shards({ name: "a", url: "${NOWHERE}" }),
      "shards[0].url: expected the environment variable NOWHERE to be set and not empty",
    ],
    [
      "a word for open",
      shards({ name: "a", url: URL, open: "yes" }),
      "shards[0].open: expected true or false",
    ],
    [
      "one name twice",
      shards({ name: "a", url: URL }, { name: "a", url: URL, schema: "b" }),
      "shards[1].name: expected a name that no other shard has",
    ],
    [
      "one place twice",
      shards({ name: "a", url: URL }, { name: "b", url: URL, schema: "tollgate" }),
      "shards[1]: expected a database or a schema that no other shard has",
    ],
    ...[
      "Tollgate",
      'a"b',
      "a.b",
      "1a",
      "pg_a",
      "public",
      "drizzle",
      "information_schema",
      "",
      "a".repeat(64),
    ].map((schema) => [
      `the schema ${schema}`,
      shards({ name: "a", url: URL, schema }),
      `shards[0].schema: ${SCHEMA}`,
    ]),
  ])("are refused with %s, and the URL is not shown", (_, text = "", expected = "") => {
    expect(refusal(text)).toBe(expected)
    expect(refusal(text)).not.toContain("s3cret")
  })

  test("and DATABASE_URL exclude each other", () => {
    const environment = (DATABASE_URL: string) => readEnvironment({ ...sources, env: { DATABASE_URL } })
    const config = load(shards({ name: "a", url: URL }))
    expect(configuredShards(environment(""), config)).toEqual([
      { name: "a", open: true, address: { url: URL } },
    ])
    expect(configuredShards(environment(URL), load(and({})))).toEqual([])
    expect(() => configuredShards(environment(URL), config)).toThrow(ConfigError)
    expect(() => configuredShards(environment(URL), config)).toThrow(
      "shards: expected no such key while DATABASE_URL is set",
    )
  })

  test("cannot be changed by a reload", () => {
    const started = load(shards({ name: "a", url: URL }))
    const closed = load(shards({ name: "a", url: URL, open: false }))
    refuseOtherShards(started, load(shards({ name: "a", url: URL, open: true, schema: "tollgate" })))
    for (const next of [closed, load(and({}))]) {
      expect(() => refuseOtherShards(started, next)).toThrow(
        "shards cannot be changed by a reload: restart the gateway",
      )
    }
  })
})
