-- Attempts, changes and thresholds of budgets, and forgotten end users are events too (D96). As for other entries, those from before
-- stay without a transaction, so no row is written. Sinks have kinds.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
ALTER TABLE "tollgate"."attempts" ADD COLUMN "xid" "xid8";--> statement-breakpoint
ALTER TABLE "tollgate"."attempts" ALTER COLUMN "xid" SET DEFAULT pg_current_xact_id();--> statement-breakpoint
ALTER TABLE "tollgate"."budget_crossings" ADD COLUMN "xid" "xid8";--> statement-breakpoint
ALTER TABLE "tollgate"."budget_crossings" ALTER COLUMN "xid" SET DEFAULT pg_current_xact_id();--> statement-breakpoint
ALTER TABLE "tollgate"."budget_entries" ADD COLUMN "xid" "xid8";--> statement-breakpoint
ALTER TABLE "tollgate"."budget_entries" ALTER COLUMN "xid" SET DEFAULT pg_current_xact_id();--> statement-breakpoint
ALTER TABLE "tollgate"."end_users" ADD COLUMN "xid" "xid8";--> statement-breakpoint
CREATE INDEX "attempts_by_xid" ON "tollgate"."attempts" USING btree ("xid") WHERE "tollgate"."attempts"."xid" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "budget_crossings_by_xid" ON "tollgate"."budget_crossings" USING btree ("xid") WHERE "tollgate"."budget_crossings"."xid" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "budget_entries_by_xid" ON "tollgate"."budget_entries" USING btree ("xid") WHERE "tollgate"."budget_entries"."xid" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "end_users_by_xid" ON "tollgate"."end_users" USING btree ("xid") WHERE "tollgate"."end_users"."xid" IS NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."sinks" ADD COLUMN "kind" text DEFAULT 'webhook' NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."sinks" ADD COLUMN "meter" text;--> statement-breakpoint
ALTER TABLE "tollgate"."sinks" ADD COLUMN "skipped" jsonb DEFAULT '[]'::jsonb NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."sinks" ADD COLUMN "skips" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."sinks" ADD CONSTRAINT "sink_kind_known" CHECK ("kind" IN ('webhook', 'openmeter', 'stripe', 'lago'));--> statement-breakpoint
-- The tables of detached months have the same columns as the attached ones.
DO $$ DECLARE
	name text;
BEGIN
	FOR name IN SELECT 'attempts_' || to_char(m.month, 'YYYY_MM') FROM tollgate.months m
		WHERE m.dropped_at IS NULL AND m.detached_at IS NOT NULL ORDER BY m.month
	LOOP
		EXECUTE format('ALTER TABLE IF EXISTS tollgate.%I ADD COLUMN IF NOT EXISTS xid xid8', name);
	END LOOP;
END $$;
