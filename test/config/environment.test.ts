import { describe, expect, test } from "bun:test"
import { readEnvironment } from "../../src/config/environment.ts"
import type { Environ } from "../../src/config/values.ts"
import { readerOf, refusalOf, rowsOf } from "./small.ts"

const readFile = readerOf({
  "/run/token": "0123456789abcdef\n",
  "/run/url": " postgres://user:SECRET@db/tollgate\n",
  "/run/short": "SECRET",
  "/run/blank": "\n",
})
const read = (env: Environ) => readEnvironment({ env, readFile })

const defaults = {
  host: "127.0.0.1",
  port: 8080,
  database_url: null,
  config_path: null,
  data_dir: ".tollgate",
  admin_token: null,
  log_level: "info",
  tracing: null,
  pushed_metrics: null,
} as const

const HOSTS = "postgres://u:p@10.0.0.1:5432,db2.example:5433/d?target_session_attrs=primary"

describe("contract: the variables and their defaults", () => {
  test("nothing is set", () => {
    expect(read({})).toEqual(defaults)
  })

  test("empty is unset", () => {
    const names = [
      ..."HOST PORT DATABASE_URL TOLLGATE_CONFIG TOLLGATE_DATA_DIR TOLLGATE_ADMIN_TOKEN".split(" "),
      ..."LOG_LEVEL DATABASE_URL_FILE TOLLGATE_ADMIN_TOKEN_FILE".split(" "),
    ]
    expect(read(Object.fromEntries(names.map((name) => [name, ""])))).toEqual(defaults)
  })

  const rows: [Environ, object][] = [
    [{ HOST: "0.0.0.0" }, { host: "0.0.0.0" }],
    [{ HOST: "::" }, { host: "::" }],
    [{ HOST: "localhost" }, { host: "localhost" }],
    [{ PORT: "80" }, { port: 80 }],
    [{ PORT: "0" }, { port: 0 }],
    [{ PORT: "65535" }, { port: 65_535 }],
    [{ DATABASE_URL: "postgres://u:p@h:5432/d" }, { database_url: "postgres://u:p@h:5432/d" }],
    [
      { DATABASE_URL: "postgresql://h/d?sslmode=require" },
      { database_url: "postgresql://h/d?sslmode=require" },
    ],
    [
      { DATABASE_URL: "postgres:///d?host=/run/postgresql" },
      { database_url: "postgres:///d?host=/run/postgresql" },
    ],
    [{ DATABASE_URL_FILE: "/run/url" }, { database_url: "postgres://user:SECRET@db/tollgate" }],
    [{ TOLLGATE_CONFIG: "/etc/tollgate.yaml" }, { config_path: "/etc/tollgate.yaml" }],
    [{ TOLLGATE_DATA_DIR: "/var/lib/tollgate" }, { data_dir: "/var/lib/tollgate" }],
    [{ TOLLGATE_ADMIN_TOKEN: "0123456789abcdef" }, { admin_token: "0123456789abcdef" }],
    [{ TOLLGATE_ADMIN_TOKEN_FILE: "/run/token" }, { admin_token: "0123456789abcdef" }],
    [{ LOG_LEVEL: "debug" }, { log_level: "debug" }],
    [{ LOG_LEVEL: "silent" }, { log_level: "silent" }],
    [{ TOLLGATE_TYPO: "x" }, {}],
    [{ DATABASE_URL: HOSTS }, { database_url: HOSTS }],
  ]
  test.each(rows)("%j", (env, expected) => {
    expect(read(env)).toEqual({ ...defaults, ...expected })
  })
})

describe("a wrong variable stops the start with its name, never its value", () => {
  const PORT = "PORT: expected an integer from 0 to 65535"
  const HOST = "HOST: expected a host name or an IP address"
  const LEVEL = "LOG_LEVEL: expected one of trace, debug, info, warn, error, fatal, silent"
  const DATABASE = "DATABASE_URL: expected a URL such as postgres://user:password@host:5432/database"
  const TOKEN = "TOLLGATE_ADMIN_TOKEN: expected at least 16 printable ASCII characters without spaces"
  const file = (name: string) => `${name}_FILE: expected the path of a readable, non-empty file`

  const refused: Readonly<Record<string, Environ | readonly Environ[]>> = {
    [PORT]: [
      { PORT: "http" },
      { PORT: "65536" },
      { PORT: "-1" },
      { PORT: "80.5" },
      { PORT: " 80" },
      { PORT: "0x50" },
      { PORT: "tcp://10.0.0.1:80" },
    ],
    [HOST]: [{ HOST: "http://localhost" }, { HOST: "local host" }],
    [LEVEL]: [{ LOG_LEVEL: "verbose" }, { LOG_LEVEL: "INFO" }, { LOG_LEVEL: "constructor" }],
    "DATABASE_URL: expected a URL whose target_session_attrs is primary or read-write": {
      DATABASE_URL: "postgres://u@a,b/d?target_session_attrs=standby",
    },
    [DATABASE]: [
      { DATABASE_URL: "postgres://u:SECRET@a:5432,b:x/d" },
      { DATABASE_URL: "mysql://u:SECRET@h/d" },
      { DATABASE_URL: "h:5432/SECRET" },
      { DATABASE_URL: "postgres://h/d SECRET" },
      { DATABASE_URL: "postgres://u:SECRET@h:99999/d" },
    ],
    "DATABASE_URL: expected a URL without sslrootcert: NODE_EXTRA_CA_CERTS names the file of your own authority, and client certificates are not supported":
      { DATABASE_URL: "postgres://u:SECRET@h/d?sslmode=verify-full&sslrootcert=/etc/ca.pem" },
    "DATABASE_URL: expected a URL whose sslmode is one of disable, allow, prefer, require, verify-ca, verify-full":
      { DATABASE_URL: "postgres://u:SECRET@h/d?sslmode=verify_full" },
    [TOKEN]: [
      { TOLLGATE_ADMIN_TOKEN: "SECRET789abcdef" },
      { TOLLGATE_ADMIN_TOKEN: "SECRET secret SECRET" },
      { TOLLGATE_ADMIN_TOKEN: "SECRETäSECRETäSECRET" },
      { TOLLGATE_ADMIN_TOKEN_FILE: "/run/short" },
    ],
    [file("TOLLGATE_ADMIN_TOKEN")]: { TOLLGATE_ADMIN_TOKEN_FILE: "/run/nope" },
    [file("DATABASE_URL")]: { DATABASE_URL_FILE: "/run/blank" },
    "TOLLGATE_ADMIN_TOKEN: expected to be unset when TOLLGATE_ADMIN_TOKEN_FILE is set": {
      TOLLGATE_ADMIN_TOKEN: "0123456789abcdef",
      TOLLGATE_ADMIN_TOKEN_FILE: "/run/token",
    },
    [`${PORT}\n${LEVEL}\n${HOST}`]: { PORT: "x", LOG_LEVEL: "x", HOST: "/" },
  }
  test.each(rowsOf(refused))("%s: %j", (message, env) => {
    expect(refusalOf(() => read(env))).toBe(message)
    expect(message).not.toContain("SECRET")
  })
})
