import type { ArgsDef } from "citty"
import { sourcesWith } from "../setup.ts"
import { type AdminClient, openAdminClient } from "./admin-client.ts"
import { type Example, type Leaf, leaf } from "./command.ts"
import type { Given } from "./given.ts"
import type { Screen } from "./screen.ts"
import { DEFAULT_URL, findTarget } from "./target.ts"

/** What an admin command works with. */
export interface AdminContext {
  readonly client: AdminClient
  readonly screen: Screen
  /** Prints an answer: as text, or as JSON with `--json`. */
  show(answer: unknown, text: () => string): void
  /** Prints a remark to standard error, unless `--json` is given. */
  remark(text: string): void
}

/** The flags of every admin command. */
export const ADMIN_ARGS = {
  json: { type: "boolean", description: "print the API response as JSON" },
  url: {
    type: "string",
    valueHint: "URL",
    description: `address of the gateway (default: TOLLGATE_URL, then a running demo, then ${DEFAULT_URL})`,
  },
  database: {
    type: "boolean",
    description: "use the database directly: DATABASE_URL, or the embedded one of the data directory",
  },
  "data-dir": {
    type: "string",
    valueHint: "DIR",
    description: "the data directory (default: TOLLGATE_DATA_DIR, then .tollgate)",
  },
} as const satisfies ArgsDef

export interface AdminCommandDefinition<Args extends ArgsDef> {
  readonly summary: string
  readonly details?: string
  readonly args: Args
  readonly examples: readonly [Example, ...Example[]]
  run(given: Given<keyof Args & string>, context: AdminContext): Promise<void>
}

/** A command that opens an admin client and closes it at its end. */
export function adminCommand<const Args extends ArgsDef>(definition: AdminCommandDefinition<Args>): Leaf {
  return leaf({
    ...definition,
    args: { ...definition.args, ...ADMIN_ARGS },
    async run(given, screen) {
      const target = findTarget(
        { url: given.text("url"), database: given.has("database"), data_dir: given.text("data-dir") },
        sourcesWith(screen.env),
      )
      const is_json = given.has("json")
      const client = await openAdminClient(target)
      try {
        await definition.run(given, {
          client,
          screen,
          show: (answer, text) => screen.print(is_json ? JSON.stringify(answer, null, 2) : text()),
          remark: (text) => (is_json ? undefined : screen.remark(text)),
        })
      } finally {
        await client.close()
      }
    },
  })
}
