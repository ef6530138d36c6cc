-- The order of the event feed (D96): the transaction that wrote an entry. Entries from before stay without, so no row is written.
-- The indexes hold only entries with a transaction: they are empty at first, and the tables are read once for them.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."feed_epochs" (
	"number" integer PRIMARY KEY NOT NULL,
	"id" uuid DEFAULT gen_random_uuid() NOT NULL,
	"series" integer NOT NULL,
	"place" text NOT NULL,
	"began_at" timestamp with time zone DEFAULT now() NOT NULL,
	"from_xid" "xid8" NOT NULL,
	"seen_xid" "xid8" NOT NULL,
	"seen_at" timestamp with time zone DEFAULT now() NOT NULL,
	"xid" "xid8" DEFAULT pg_current_xact_id() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "tollgate"."months" ADD COLUMN "last_xid" "xid8";--> statement-breakpoint
ALTER TABLE "tollgate"."months" ADD COLUMN "last_series" integer;--> statement-breakpoint
ALTER TABLE "tollgate"."corrections" ADD COLUMN "xid" "xid8";--> statement-breakpoint
ALTER TABLE "tollgate"."corrections" ALTER COLUMN "xid" SET DEFAULT pg_current_xact_id();--> statement-breakpoint
ALTER TABLE "tollgate"."credits" ADD COLUMN "xid" "xid8";--> statement-breakpoint
ALTER TABLE "tollgate"."credits" ALTER COLUMN "xid" SET DEFAULT pg_current_xact_id();--> statement-breakpoint
ALTER TABLE "tollgate"."ends" ADD COLUMN "xid" "xid8";--> statement-breakpoint
ALTER TABLE "tollgate"."ends" ALTER COLUMN "xid" SET DEFAULT pg_current_xact_id();--> statement-breakpoint
CREATE INDEX "corrections_by_xid" ON "tollgate"."corrections" USING btree ("xid") WHERE "tollgate"."corrections"."xid" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "credits_by_xid" ON "tollgate"."credits" USING btree ("xid") WHERE "tollgate"."credits"."xid" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "ends_by_xid" ON "tollgate"."ends" USING btree ("xid") WHERE "tollgate"."ends"."xid" IS NOT NULL;--> statement-breakpoint
-- The timeline changes when a standby is promoted, the number when a database is copied, and the start when a copy of the files
-- or of their volume takes the place of the server.
CREATE FUNCTION "tollgate"."feed_place"() RETURNS text LANGUAGE sql STABLE AS $$
	SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) || ' ' || (SELECT oid FROM pg_database WHERE datname = current_database())
		|| ' ' || extract(epoch FROM pg_postmaster_start_time())
$$;--> statement-breakpoint
INSERT INTO "tollgate"."feed_epochs" (number, series, place, from_xid, seen_xid)
VALUES (1, 1, "tollgate"."feed_place"(), '0', pg_snapshot_xmin(pg_current_snapshot()));
