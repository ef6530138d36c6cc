-- Sums of the labels of calls by day (D94). The table is empty at first. A gateway of the version before closes days without them, and
-- leaves the new moment as it is.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."label_days" (
	"from_at" timestamp with time zone NOT NULL,
	"account_id" uuid NOT NULL,
	"key_id" uuid NOT NULL,
	"terms_id" integer NOT NULL,
	"outcome" "tollgate"."end_outcome",
	"basis" "tollgate"."basis",
	"failure" "tollgate"."failure",
	"calls" bigint NOT NULL,
	"charge_nano" bigint NOT NULL,
	"overage_nano" bigint NOT NULL,
	"held_nano" bigint NOT NULL,
	"prompt_tokens" bigint NOT NULL,
	"cached_tokens" bigint NOT NULL,
	"completion_tokens" bigint NOT NULL,
	"profit_nano" bigint,
	"cache_write" bigint,
	"cache_write_1h" bigint,
	"reasoning" bigint,
	"audio_input" bigint,
	"audio_output" bigint,
	"image_input" bigint,
	"web_search" bigint,
	"image_output" bigint,
	"cached_audio_input" bigint,
	"page" bigint,
	"tool_run" bigint,
	"provider_cost_nano" bigint,
	"labels_id" integer NOT NULL
);
--> statement-breakpoint
ALTER TABLE "tollgate"."summed" ADD COLUMN "labels_until" timestamp with time zone;--> statement-breakpoint
CREATE INDEX "label_days_of_account" ON "tollgate"."label_days" USING btree ("account_id","from_at");--> statement-breakpoint
CREATE INDEX "label_days_by_time" ON "tollgate"."label_days" USING brin ("from_at");