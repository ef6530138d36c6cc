import { bigint, date, doublePrecision, integer, primaryKey, text } from "drizzle-orm/pg-core"
import { ledger } from "./tables.ts"

const count = (name: string) => bigint(name, { mode: "bigint" }).notNull()

/** Sums about estimates (D92), by model, operation and UTC day. State: rows are deleted after 30 days. */
export const estimates = ledger.table(
  "estimates",
  {
    day: date("day", { mode: "string" }).notNull(),
    model: text("model").notNull(),
    operation: text("operation").notNull(),
    calls: count("calls"),
    prompt_bytes: count("prompt_bytes"),
    prompt_tokens: count("prompt_tokens"),
    output_bytes: count("output_bytes"),
    output_tokens: count("output_tokens"),
    reasoning_tokens: count("reasoning_tokens"),
    reasoning_calls: count("reasoning_calls"),
    /** The settings of the model when the row was last added to. */
    bytes_per_token: doublePrecision("bytes_per_token").notNull(),
    hidden_output: integer("hidden_output").notNull(),
  },
  (row) => [primaryKey({ name: "estimates_pkey", columns: [row.day, row.model, row.operation] })],
)
