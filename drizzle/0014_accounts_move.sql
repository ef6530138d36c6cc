-- Accounts can be moved to another shard (D76). The columns may be null, so no row is written; the index is empty at first.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."carried_spending" (
	"key_id" uuid NOT NULL,
	"period" text NOT NULL,
	"since" timestamp with time zone NOT NULL,
	"spent_nano" bigint NOT NULL,
	CONSTRAINT "carried_spending_key_id_period_pk" PRIMARY KEY("key_id","period"),
	CONSTRAINT "carried_period_known" CHECK ("tollgate"."carried_spending"."period" IN ('day', 'month'))
);
--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD COLUMN "moved_to" text;--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD COLUMN "moving_to" text;--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD COLUMN "moving_id" uuid;--> statement-breakpoint
CREATE INDEX "accounts_moved" ON "tollgate"."accounts" USING btree ("id") WHERE "tollgate"."accounts"."moved_to" IS NOT NULL;