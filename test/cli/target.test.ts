import { describe, expect, test } from "bun:test"
import { UsageError } from "../../src/cli/cli-error.ts"
import { findTarget, type Target, type TargetFlags } from "../../src/cli/target.ts"

const TOKEN = "operator-token-0123456789"
const ACCESS = JSON.stringify({ url: "http://127.0.0.1:36365", admin_token: "tg_admin_of_the_demo" })
const nothing: TargetFlags = { url: null, database: false, data_dir: null }

/** The files that are there. */
type Files = Readonly<Record<string, string>>

function find(wanted: Partial<TargetFlags>, env: Record<string, string>, files: Files = {}): Target {
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
const DEMO = "http://127.0.0.1:36365"
const demo = gateway(DEMO, "tg_admin_of_the_demo", "demo")
const DEFAULT = "http://127.0.0.1:8080"
const FAR = "https://tollgate.example.com"

describe("D52 where a command finds the database", () => {
  const token = { TOLLGATE_ADMIN_TOKEN: TOKEN }
  const access = { ".tollgate/demo-access": ACCESS }
  const elsewhere = { ".tollgate/demo-access": ACCESS.replace("127.0.0.1", "tollgate.example.com") }
  const postgres = { DATABASE_URL: "postgres://x/y" }
  const database = (url: string): Target => ({ kind: "database", url, data_dir: ".tollgate" })
  const embedded = (data_dir: string): Target => ({ kind: "embedded", data_dir })
  const file = { TOLLGATE_ADMIN_TOKEN_FILE: "token" }
  const rows: readonly [what: string, Target, Partial<TargetFlags>, Record<string, string>, Files?][] = [
    ["a token alone: the usual address", gateway(DEFAULT, TOKEN), {}, token],
    ["TOLLGATE_URL", gateway(FAR, TOKEN), {}, { ...token, TOLLGATE_URL: FAR }],
    ["--url before it", gateway(FAR, TOKEN), { url: FAR }, { ...token, TOLLGATE_URL: DEFAULT }],
    ["a token in a file", gateway(DEFAULT, TOKEN), {}, file, { token: `${TOKEN}\n` }],
    ["the demo in the data directory", demo, {}, {}, access],
    ["the demo in another one", demo, {}, { TOLLGATE_DATA_DIR: "data" }, { "data/demo-access": ACCESS }],
    ["the demo in that of a flag", demo, { data_dir: "data" }, {}, { "data/demo-access": ACCESS }],
    ["the demo by its address", demo, { url: "http://127.0.0.1:36365/" }, {}, access],
    ["a token of one's own before the demo's, at its address", gateway(DEMO, TOKEN), {}, token, access],
    ["another address before the demo's", gateway(FAR, TOKEN), { url: FAR }, token, access],
    ["no address elsewhere from the demo's file", gateway(DEFAULT, TOKEN), {}, token, elsewhere],
    ["the database", database("postgres://x/y"), { database: true }, postgres],
    [
      "the database from a file",
      database("postgres://x/y"),
      { database: true },
      { DATABASE_URL_FILE: "url" },
      { url: "postgres://x/y\n" },
    ],
    ["the embedded one", embedded(".tollgate"), { database: true }, {}],
    [
      "the embedded one of a flag, whatever DATABASE_URL says",
      embedded("data"),
      { database: true, data_dir: "data" },
      postgres,
    ],
  ]
  test.each(rows)("%s", (_what, target, wanted, env, files = {}) => {
    expect(find(wanted, env, files)).toEqual(target)
  })

  const MISSING = /^no admin token for /
  const ADDRESS = /^--url: expected the address/
  const refused: readonly [what: string, RegExp, Partial<TargetFlags>, Record<string, string>, Files?][] = [
    ["no token", MISSING, {}, {}],
    ["the demo's token for another address", MISSING, { url: FAR }, {}, access],
    ["another port than the demo's", MISSING, { url: DEFAULT }, {}, access],
    ["an invalid file of the demo", MISSING, {}, {}, { ".tollgate/demo-access": "{}" }],
    [
      "a token twice",
      /^TOLLGATE_ADMIN_TOKEN: expected to be unset when TOLLGATE_ADMIN_TOKEN_FILE is set/,
      {},
      { ...token, ...file },
    ],
    ["a token file that is not there", /^TOLLGATE_ADMIN_TOKEN_FILE: expected/, {}, file],
    ["two ways", /^--url and --database cannot be combined/, { url: FAR, database: true }, {}],
    ["an address that is none", ADDRESS, { url: "localhost" }, {}],
    ["an address with a password", ADDRESS, { url: "http://a:b@c" }, {}],
    ["a variable that is no address", /^TOLLGATE_URL: expected the address/, {}, { TOLLGATE_URL: "ftp://x" }],
  ]
  test.each(refused)("refused: %s", (_what, sentence, wanted, env, files = {}) => {
    expect(() => find(wanted, env, files)).toThrow(sentence)
  })

  test("a flag that is wrong is a matter of the words, a missing token is not", () => {
    expect(() => find({ url: "x" }, {})).toThrow(UsageError)
    expect(() => find({}, {})).not.toThrow(UsageError)
  })
})
