import { defineConfig } from "drizzle-kit"

export default defineConfig({ dialect: "postgresql", schema: "./src/ledger/schema/*.ts", out: "./drizzle" })
