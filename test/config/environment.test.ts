import { describe, expect, test } from "bun:test"
import { ConfigError } from "../../src/config/config.ts"
import { readEnvironment } from "../../src/config/environment.ts"
import type { Environ } from "../../src/config/values.ts"

const files: Readonly<Record<string, string>> = {
  "/run/token": "0123456789abcdef\n",
  "/run/url": " postgres://user:SECRET@db/tollgate\n",
  "/run/short": "SECRET",
  "/run/blank": "\n",
}

const read = (env: Environ) =>
  readEnvironment({
    env,
    readFile(path) {
      const text = files[path]
      if (text === undefined) throw new Error("ENOENT")
      return text
    },
  })

function refusal(env: Environ): string {
  try {
    read(env)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  throw new Error("the environment was accepted")
}

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
      "HOST",
      "PORT",
      "DATABASE_URL",
      "TOLLGATE_CONFIG",
      "TOLLGATE_DATA_DIR",
      "TOLLGATE_ADMIN_TOKEN",
      "LOG_LEVEL",
      "DATABASE_URL_FILE",
      "TOLLGATE_ADMIN_TOKEN_FILE",
    ]
    expect(read(Object.fromEntries(names.map((name) => [name, ""])))).toEqual(defaults)
  })

  const rows: [string, Environ, object][] = [
    ["HOST", { HOST: "0.0.0.0" }, { host: "0.0.0.0" }],
    ["HOST in IPv6", { HOST: "::" }, { host: "::" }],
    ["HOST by name", { HOST: "localhost" }, { host: "localhost" }],
    ["PORT", { PORT: "80" }, { port: 80 }],
    ["PORT 0 picks one", { PORT: "0" }, { port: 0 }],
    ["PORT at its most", { PORT: "65535" }, { port: 65_535 }],
    [
      "DATABASE_URL",
      { DATABASE_URL: "postgres://u:p@h:5432/d" },
      { database_url: "postgres://u:p@h:5432/d" },
    ],
    [
      "DATABASE_URL, the other scheme",
      { DATABASE_URL: "postgresql://h/d?sslmode=require" },
      { database_url: "postgresql://h/d?sslmode=require" },
    ],
    [
      "DATABASE_URL over a socket",
      { DATABASE_URL: "postgres:///d?host=/run/postgresql" },
      { database_url: "postgres:///d?host=/run/postgresql" },
    ],
    [
      "DATABASE_URL_FILE",
      { DATABASE_URL_FILE: "/run/url" },
      { database_url: "postgres://user:SECRET@db/tollgate" },
    ],
    ["TOLLGATE_CONFIG", { TOLLGATE_CONFIG: "/etc/tollgate.yaml" }, { config_path: "/etc/tollgate.yaml" }],
    ["TOLLGATE_DATA_DIR", { TOLLGATE_DATA_DIR: "/var/lib/tollgate" }, { data_dir: "/var/lib/tollgate" }],
    [
      "TOLLGATE_ADMIN_TOKEN",
      { TOLLGATE_ADMIN_TOKEN: "0123456789abcdef" },
      { admin_token: "0123456789abcdef" },
    ],
    [
      "TOLLGATE_ADMIN_TOKEN_FILE",
      { TOLLGATE_ADMIN_TOKEN_FILE: "/run/token" },
      { admin_token: "0123456789abcdef" },
    ],
    ["an open HOST without an admin token", { HOST: "0.0.0.0" }, { host: "0.0.0.0", admin_token: null }],
    ["LOG_LEVEL", { LOG_LEVEL: "debug" }, { log_level: "debug" }],
    ["LOG_LEVEL silent", { LOG_LEVEL: "silent" }, { log_level: "silent" }],
    ["what nobody knows", { TOLLGATE_TYPO: "x" }, {}],
    ["D73 several hosts with ports", { DATABASE_URL: HOSTS }, { database_url: HOSTS }],
  ]
  test.each(rows)("%s", (_, env, expected) => {
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

  const rows: [string, Environ, string][] = [
    ["PORT a word", { PORT: "http" }, PORT],
    ["PORT too large", { PORT: "65536" }, PORT],
    ["PORT negative", { PORT: "-1" }, PORT],
    ["PORT a fraction", { PORT: "80.5" }, PORT],
    ["PORT with a space", { PORT: " 80" }, PORT],
    ["PORT in hex", { PORT: "0x50" }, PORT],
    ["PORT as Kubernetes sets it for a service", { PORT: "tcp://10.0.0.1:80" }, PORT],
    ["HOST a URL", { HOST: "http://localhost" }, HOST],
    ["HOST with a space", { HOST: "local host" }, HOST],
    ["LOG_LEVEL unknown", { LOG_LEVEL: "verbose" }, LEVEL],
    ["LOG_LEVEL in upper case", { LOG_LEVEL: "INFO" }, LEVEL],
    ["LOG_LEVEL that every object has", { LOG_LEVEL: "constructor" }, LEVEL],
    [
      "D73 DATABASE_URL that wants a standby",
      { DATABASE_URL: "postgres://u@a,b/d?target_session_attrs=standby" },
      "DATABASE_URL: expected a URL whose target_session_attrs is primary or read-write",
    ],
    [
      "D73 DATABASE_URL with a host that is none",
      { DATABASE_URL: "postgres://u:SECRET@a:5432,b:x/d" },
      DATABASE,
    ],
    [
      "DATABASE_URL with an authority of its own",
      { DATABASE_URL: "postgres://u:SECRET@h/d?sslmode=verify-full&sslrootcert=/etc/ca.pem" },
      "DATABASE_URL: expected a URL without sslrootcert: NODE_EXTRA_CA_CERTS names the file of your own authority, and client certificates are not supported",
    ],
    [
      "DATABASE_URL with a misspelt sslmode",
      { DATABASE_URL: "postgres://u:SECRET@h/d?sslmode=verify_full" },
      "DATABASE_URL: expected a URL whose sslmode is one of disable, allow, prefer, require, verify-ca, verify-full",
    ],
    ["DATABASE_URL of another database", { DATABASE_URL: "mysql://u:SECRET@h/d" }, DATABASE],
    ["DATABASE_URL without a scheme", { DATABASE_URL: "h:5432/SECRET" }, DATABASE],
    ["DATABASE_URL with a space", { DATABASE_URL: "postgres://h/d SECRET" }, DATABASE],
    ["DATABASE_URL with an impossible port", { DATABASE_URL: "postgres://u:SECRET@h:99999/d" }, DATABASE],
    ["TOLLGATE_ADMIN_TOKEN of 15 characters", { TOLLGATE_ADMIN_TOKEN: "SECRET789abcdef" }, TOKEN],
    ["TOLLGATE_ADMIN_TOKEN with a space", { TOLLGATE_ADMIN_TOKEN: "SECRET secret SECRET" }, TOKEN],
    ["TOLLGATE_ADMIN_TOKEN with an umlaut", { TOLLGATE_ADMIN_TOKEN: "SECRETäSECRETäSECRET" }, TOKEN],
    ["a short token in a file", { TOLLGATE_ADMIN_TOKEN_FILE: "/run/short" }, TOKEN],
    ["a missing file", { TOLLGATE_ADMIN_TOKEN_FILE: "/run/nope" }, file("TOLLGATE_ADMIN_TOKEN")],
    ["a blank file", { DATABASE_URL_FILE: "/run/blank" }, file("DATABASE_URL")],
    [
      "both a value and a file",
      { TOLLGATE_ADMIN_TOKEN: "0123456789abcdef", TOLLGATE_ADMIN_TOKEN_FILE: "/run/token" },
      "TOLLGATE_ADMIN_TOKEN: expected to be unset when TOLLGATE_ADMIN_TOKEN_FILE is set",
    ],
    ["several at once", { PORT: "x", LOG_LEVEL: "x", HOST: "/" }, `${PORT}\n${LEVEL}\n${HOST}`],
  ]
  test.each(rows)("%s", (_, env, message) => {
    expect(refusal(env)).toBe(message)
    expect(message).not.toContain("SECRET")
  })
})
