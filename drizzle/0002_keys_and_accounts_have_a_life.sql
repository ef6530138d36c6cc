-- Behind a reader that takes long, all traffic would wait for this.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."answers" (
	"call_id" uuid PRIMARY KEY NOT NULL,
	"body" text NOT NULL,
	"expires_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tollgate"."idempotency" (
	"account_id" uuid NOT NULL,
	"key_hash" text NOT NULL,
	"body_hash" text NOT NULL,
	"call_id" uuid NOT NULL,
	"claimed_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "idempotency_pkey" PRIMARY KEY("account_id","key_hash")
);
--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD COLUMN "suspended_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "suspended_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "spend_limit_nano" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "spend_period" text;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "spend_epoch" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "spent_nano" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "spent_since" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tollgate"."reservations" ADD COLUMN "per_call_nano" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."reservations" ADD COLUMN "spend_epoch" integer;--> statement-breakpoint
CREATE INDEX "answers_by_end" ON "tollgate"."answers" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "idempotency_by_age" ON "tollgate"."idempotency" USING btree ("claimed_at");--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD CONSTRAINT "period_known" CHECK ("spend_period" IN ('day', 'month'));--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD CONSTRAINT "limit_has_period" CHECK (("spend_limit_nano" IS NULL) = ("spend_period" IS NULL));--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD CONSTRAINT "limit_not_negative" CHECK ("spend_limit_nano" >= 0);--> statement-breakpoint
-- The row of a key with a limit is updated by every call.
ALTER TABLE "tollgate"."keys" SET (fillfactor = 50);
