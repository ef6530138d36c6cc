import { describe, expect, test } from "bun:test"
import { UsageError } from "../../src/cli/cli-error.ts"
import { findTarget, type Target, type Wanted } from "../../src/cli/target.ts"

const TOKEN = "operator-token-0123456789"
const ACCESS = JSON.stringify({ url: "http://127.0.0.1:36365", admin_token: "tg_admin_of_the_demo" })
const nothing: Wanted = { url: null, database: false, data_dir: null }

/** The files that are there. */
type Files = Readonly<Record<string, string>>

function find(wanted: Partial<Wanted>, env: Record<string, string>, files: Files = {}): Target {
  return findTarget(
    { ...nothing, ...wanted },
    {
      env,
      readFile(path) {
        const text = files[path]
        if (text === undefined) throw new Error("there is no such file")
        return text
      },
    },
  )
}

const gateway = (url: string, token: string, from: "environment" | "demo" = "environment"): Target => ({
  kind: "gateway",
  url,
  token,
  from,
})
const demo = gateway("http://127.0.0.1:36365", "tg_admin_of_the_demo", "demo")
const DEFAULT = "http://127.0.0.1:8080"
const FAR = "https://tollgate.example.com"

describe("D52 where a command finds the database", () => {
  const rows: readonly [what: string, Partial<Wanted>, Record<string, string>, Files, Target][] = [
    ["a token alone: the usual address", {}, { TOLLGATE_ADMIN_TOKEN: TOKEN }, {}, gateway(DEFAULT, TOKEN)],
    ["TOLLGATE_URL", {}, { TOLLGATE_ADMIN_TOKEN: TOKEN, TOLLGATE_URL: FAR }, {}, gateway(FAR, TOKEN)],
    [
      "--url before it",
      { url: FAR },
      { TOLLGATE_ADMIN_TOKEN: TOKEN, TOLLGATE_URL: DEFAULT },
      {},
      gateway(FAR, TOKEN),
    ],
    [
      "a token in a file",
      {},
      { TOLLGATE_ADMIN_TOKEN_FILE: "token" },
      { token: `${TOKEN}\n` },
      gateway(DEFAULT, TOKEN),
    ],
    ["the demo in the data directory", {}, {}, { ".tollgate/demo-access": ACCESS }, demo],
    [
      "the demo in another data directory",
      {},
      { TOLLGATE_DATA_DIR: "data" },
      { "data/demo-access": ACCESS },
      demo,
    ],
    [
      "the demo in the data directory of a flag",
      { data_dir: "data" },
      {},
      { "data/demo-access": ACCESS },
      demo,
    ],
    [
      "the demo by its address",
      { url: "http://127.0.0.1:36365/" },
      {},
      { ".tollgate/demo-access": ACCESS },
      demo,
    ],
    [
      "a token of one's own before the demo's",
      {},
      { TOLLGATE_ADMIN_TOKEN: TOKEN },
      { ".tollgate/demo-access": ACCESS },
      gateway(DEFAULT, TOKEN),
    ],
    [
      "the database",
      { database: true },
      { DATABASE_URL: "postgres://x/y" },
      {},
      { kind: "database", url: "postgres://x/y", data_dir: ".tollgate" },
    ],
    [
      "the database from a file",
      { database: true },
      { DATABASE_URL_FILE: "url" },
      { url: "postgres://x/y\n" },
      { kind: "database", url: "postgres://x/y", data_dir: ".tollgate" },
    ],
    ["the embedded one", { database: true }, {}, {}, { kind: "embedded", data_dir: ".tollgate" }],
    [
      "the embedded one of a flag, whatever DATABASE_URL says",
      { database: true, data_dir: "data" },
      { DATABASE_URL: "postgres://x/y" },
      {},
      { kind: "embedded", data_dir: "data" },
    ],
  ]
  test.each(rows)("%s", (_what, wanted, env, files, target) => {
    expect(find(wanted, env, files)).toEqual(target)
  })

  const TOKEN_MISSING = /^no admin token for /
  const refused: readonly [what: string, Partial<Wanted>, Record<string, string>, Files, RegExp][] = [
    ["no token", {}, {}, {}, TOKEN_MISSING],
    [
      "the demo's token for another address",
      { url: FAR },
      {},
      { ".tollgate/demo-access": ACCESS },
      TOKEN_MISSING,
    ],
    [
      "another port than the demo's",
      { url: DEFAULT },
      {},
      { ".tollgate/demo-access": ACCESS },
      TOKEN_MISSING,
    ],
    ["an invalid file of the demo", {}, {}, { ".tollgate/demo-access": "{}" }, TOKEN_MISSING],
    [
      "a token twice",
      {},
      { TOLLGATE_ADMIN_TOKEN: TOKEN, TOLLGATE_ADMIN_TOKEN_FILE: "token" },
      {},
      /^TOLLGATE_ADMIN_TOKEN and TOLLGATE_ADMIN_TOKEN_FILE are both set/,
    ],
    [
      "a token file that is not there",
      {},
      { TOLLGATE_ADMIN_TOKEN_FILE: "gone" },
      {},
      /^TOLLGATE_ADMIN_TOKEN_FILE: expected/,
    ],
    ["two ways", { url: FAR, database: true }, {}, {}, /^--url and --database cannot be combined/],
    ["an address that is none", { url: "localhost" }, {}, {}, /^--url: expected the address/],
    ["an address with a password", { url: "http://a:b@c" }, {}, {}, /^--url: expected the address/],
    [
      "a variable that is no address",
      {},
      { TOLLGATE_URL: "ftp://x" },
      {},
      /^TOLLGATE_URL: expected the address/,
    ],
  ]
  test.each(refused)("refused: %s", (_what, wanted, env, files, sentence) => {
    expect(() => find(wanted, env, files)).toThrow(sentence)
  })

  test("a flag that is wrong is a matter of the words, a missing token is not", () => {
    expect(() => find({ url: "x" }, {})).toThrow(UsageError)
    expect(() => find({}, {})).not.toThrow(UsageError)
  })
})
