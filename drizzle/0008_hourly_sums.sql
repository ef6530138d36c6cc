-- Sums of hours and days (D72). They begin empty: a background task of the first gateway fills them, and until then reports
-- read the entries.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."day_latencies" (
	"from_at" timestamp with time zone NOT NULL,
	"account_id" uuid NOT NULL,
	"key_id" uuid NOT NULL,
	"terms_id" integer NOT NULL,
	"is_ttft" boolean NOT NULL,
	"ms" integer[] NOT NULL,
	"calls" integer[] NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tollgate"."days" (
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
	"completion_tokens" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tollgate"."hour_latencies" (
	"from_at" timestamp with time zone NOT NULL,
	"account_id" uuid NOT NULL,
	"key_id" uuid NOT NULL,
	"terms_id" integer NOT NULL,
	"is_ttft" boolean NOT NULL,
	"ms" integer[] NOT NULL,
	"calls" integer[] NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tollgate"."hours" (
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
	"completion_tokens" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tollgate"."summed" (
	"id" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"hours_until" timestamp with time zone,
	"days_until" timestamp with time zone
);
--> statement-breakpoint
CREATE INDEX "day_latencies_of_account" ON "tollgate"."day_latencies" USING btree ("account_id","from_at");--> statement-breakpoint
CREATE INDEX "day_latencies_by_time" ON "tollgate"."day_latencies" USING brin ("from_at") WITH (autosummarize = on);--> statement-breakpoint
CREATE INDEX "days_of_account" ON "tollgate"."days" USING btree ("account_id","from_at");--> statement-breakpoint
CREATE INDEX "days_by_time" ON "tollgate"."days" USING brin ("from_at") WITH (autosummarize = on);--> statement-breakpoint
CREATE INDEX "hour_latencies_of_account" ON "tollgate"."hour_latencies" USING btree ("account_id","from_at");--> statement-breakpoint
CREATE INDEX "hour_latencies_by_time" ON "tollgate"."hour_latencies" USING brin ("from_at") WITH (autosummarize = on);--> statement-breakpoint
CREATE INDEX "hours_of_account" ON "tollgate"."hours" USING btree ("account_id","from_at");--> statement-breakpoint
CREATE INDEX "hours_by_time" ON "tollgate"."hours" USING brin ("from_at") WITH (autosummarize = on);--> statement-breakpoint
INSERT INTO "tollgate"."summed" DEFAULT VALUES;
