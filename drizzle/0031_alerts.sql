-- Alerts (D96): events that are no entries of the journal. The new columns are null or have a constant default, so no table is rewritten.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."alerts" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"type" text NOT NULL,
	"account_id" uuid,
	"details" jsonb NOT NULL,
	"at" timestamp with time zone DEFAULT now() NOT NULL,
	"xid" "xid8" DEFAULT pg_current_xact_id()
);
--> statement-breakpoint
CREATE TABLE "tollgate"."upstream_troubles" (
	"upstream" text NOT NULL,
	"key" text NOT NULL,
	"trouble" text NOT NULL,
	"is_on" boolean NOT NULL,
	"gateway_id" uuid NOT NULL,
	"changed_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "upstream_troubles_upstream_key_trouble_pk" PRIMARY KEY("upstream","key","trouble")
);
--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD COLUMN "low_balance_nano" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD COLUMN "is_balance_low" boolean DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX "alerts_by_xid" ON "tollgate"."alerts" USING btree ("xid") WHERE "tollgate"."alerts"."xid" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "alerts_by_time" ON "tollgate"."alerts" USING btree ("at");--> statement-breakpoint
CREATE INDEX "accounts_with_low_balance" ON "tollgate"."accounts" USING btree ("id") WHERE "tollgate"."accounts"."low_balance_nano" IS NOT NULL;
