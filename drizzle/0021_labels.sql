-- The end users and tags of calls (D94). New columns may be null or have a default, so no row is written, and gateways of the version
-- before still work: their calls have no labels.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."end_users" (
	"id" uuid PRIMARY KEY NOT NULL,
	"account_id" uuid NOT NULL,
	"subject" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"forgotten_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "tollgate"."labels" (
	"id" integer PRIMARY KEY NOT NULL,
	"account_id" uuid NOT NULL,
	"end_user_id" uuid,
	"tags" jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
DROP VIEW "tollgate"."calls";--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD COLUMN "external_id" text;--> statement-breakpoint
ALTER TABLE "tollgate"."holds" ADD COLUMN "labels_id" integer;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "labels" jsonb;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "required_tags" text[];--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "ignores_client_tags" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "labels_version" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "end_user_by_subject" ON "tollgate"."end_users" USING btree ("account_id","subject");--> statement-breakpoint
CREATE UNIQUE INDEX "labels_of_end_user" ON "tollgate"."labels" USING btree ("account_id","end_user_id","tags") WHERE "tollgate"."labels"."end_user_id" IS NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "labels_of_account" ON "tollgate"."labels" USING btree ("account_id","tags") WHERE "tollgate"."labels"."end_user_id" IS NULL;--> statement-breakpoint
CREATE INDEX "labels_by_time" ON "tollgate"."labels" USING btree ("account_id","created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "account_by_external_id" ON "tollgate"."accounts" USING btree ("external_id") WHERE "tollgate"."accounts"."external_id" IS NOT NULL AND "tollgate"."accounts"."moved_to" IS NULL;--> statement-breakpoint
CREATE VIEW "tollgate"."calls" AS (
    SELECT h.id, h.account_id, h.key_id, h.gateway_id, h.amount_nano, coalesce(c.charge_nano, e.charge_nano) AS charge_nano,
      h.held_at, coalesce(c.corrected_at, e.ended_at) AS ended_at,
      CASE WHEN c.id IS NULL THEN e.prompt_tokens ELSE c.prompt_tokens END AS prompt_tokens,
      CASE WHEN c.id IS NULL THEN e.cached_tokens ELSE c.cached_tokens END AS cached_tokens,
      CASE WHEN c.id IS NULL THEN e.completion_tokens ELSE c.completion_tokens END AS completion_tokens,
      coalesce(c.ttft_ms, e.ttft_ms) AS ttft_ms, coalesce(c.duration_ms, e.duration_ms) AS duration_ms, h.stream,
      CASE WHEN e.id IS NULL THEN 'open' WHEN c.id IS NULL THEN e.outcome::text ELSE 'settled' END AS state,
      t.family, t.model, t.upstream, t.input_pico, t.cached_input_pico, t.output_pico, t.per_call_nano,
      coalesce(c.basis, e.basis)::text AS basis,
      (CASE WHEN c.id IS NULL THEN e.ending ELSE c.ending END)::text AS ending,
      (CASE WHEN c.id IS NULL THEN e.failure ELSE c.failure END)::text AS failure,
      coalesce(c.notes, e.notes, '{}') AS notes, CASE WHEN c.id IS NULL THEN e.buckets ELSE c.buckets END AS buckets,
      t.above_tokens, t.operation, h.margin_bp AS price_multiplier_bp, t.service_tier, h.session_id, h.agent_id,
      CASE WHEN c.id IS NULL THEN e.details ELSE c.details END AS details,
      h.labels_id, l.tags, l.end_user_id, u.subject AS end_user, t.tool_runs, t.tool_run_pico, t.cache_write_pico, t.cache_write_1h_pico, t.reasoning_pico, t.audio_input_pico, t.audio_output_pico, t.image_input_pico, t.web_search_pico, t.image_output_pico, t.cached_audio_input_pico, t.page_pico
    FROM tollgate.holds h
    LEFT JOIN tollgate.ends e ON e.id = h.id
    LEFT JOIN tollgate.corrections c ON c.id = h.id
    LEFT JOIN tollgate.labels l ON l.id = h.labels_id
    LEFT JOIN tollgate.end_users u ON u.id = l.end_user_id
    JOIN tollgate.terms t ON t.id = coalesce(c.terms_id, e.terms_id, h.terms_id));--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."labels" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();
