ALTER TABLE "tollgate"."accounts" ADD COLUMN "may_manage_keys" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "previous_hash" text;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "previous_until" timestamp with time zone;--> statement-breakpoint
CREATE INDEX "key_by_previous_hash" ON "tollgate"."keys" USING btree ("previous_hash") WHERE "tollgate"."keys"."previous_hash" IS NOT NULL;
