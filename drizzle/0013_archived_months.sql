-- Months whose tables are detached, and where they went (D75).
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
ALTER TABLE "tollgate"."months" ADD COLUMN "detached_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tollgate"."months" ADD COLUMN "dump_hash" text;--> statement-breakpoint
ALTER TABLE "tollgate"."months" ADD COLUMN "archive" text;--> statement-breakpoint
ALTER TABLE "tollgate"."months" ADD COLUMN "dropped_at" timestamp with time zone;--> statement-breakpoint
CREATE INDEX "seal_sums_of_account" ON "tollgate"."seal_sums" USING btree ("account_id");