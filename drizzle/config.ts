import { defineConfig } from "drizzle-kit"

/** Without the aliases: drizzle-kit takes each for a second table, and stops at its indexes. */
const schema = "./src/ledger/schema/!(aliases).ts"

export default defineConfig({ dialect: "postgresql", schema, out: "./drizzle" })
