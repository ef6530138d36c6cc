-- Prices of customers (D100). No row is written.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."customer_prices" (
	"id" uuid PRIMARY KEY NOT NULL,
	"account_id" uuid NOT NULL,
	"ended_id" uuid,
	"model" text,
	"price_multiplier_bp" integer,
	"prices" jsonb,
	"from_at" timestamp with time zone NOT NULL,
	"until_at" timestamp with time zone,
	"actor" text NOT NULL,
	"reason" text,
	"made_at" timestamp with time zone NOT NULL,
	CONSTRAINT "customer_price_is_one" CHECK (("tollgate"."customer_prices"."ended_id" IS NOT NULL)::int + ("tollgate"."customer_prices"."price_multiplier_bp" IS NOT NULL)::int + ("tollgate"."customer_prices"."prices" IS NOT NULL)::int = 1),
	CONSTRAINT "customer_price_of_model" CHECK ("tollgate"."customer_prices"."prices" IS NULL OR "tollgate"."customer_prices"."model" IS NOT NULL),
	CONSTRAINT "customer_price_positive" CHECK ("tollgate"."customer_prices"."price_multiplier_bp" > 0),
	CONSTRAINT "customer_price_ends_later" CHECK ("tollgate"."customer_prices"."until_at" > "tollgate"."customer_prices"."from_at")
);
--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."customer_prices" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
DROP VIEW "tollgate"."calls";--> statement-breakpoint
ALTER TABLE "tollgate"."terms" ADD COLUMN "customer_price_id" uuid;--> statement-breakpoint
ALTER TABLE "tollgate"."terms" ADD COLUMN "list_terms_id" integer;--> statement-breakpoint
CREATE INDEX "customer_prices_of_account" ON "tollgate"."customer_prices" USING btree ("account_id","id");--> statement-breakpoint
CREATE INDEX "ends_of_customer_price" ON "tollgate"."customer_prices" USING btree ("ended_id") WHERE "tollgate"."customer_prices"."ended_id" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "terms_of_customer_price" ON "tollgate"."terms" USING btree ("customer_price_id") WHERE "tollgate"."terms"."customer_price_id" IS NOT NULL;--> statement-breakpoint
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
      h.labels_id, l.tags, l.end_user_id, u.subject AS end_user, t.customer_price_id, t.list_terms_id, t.tool_runs, t.tool_run_pico, t.cache_write_pico, t.cache_write_1h_pico, t.reasoning_pico, t.audio_input_pico, t.audio_output_pico, t.image_input_pico, t.web_search_pico, t.image_output_pico, t.cached_audio_input_pico, t.page_pico
    FROM tollgate.holds h
    LEFT JOIN tollgate.ends e ON e.id = h.id
    LEFT JOIN tollgate.corrections c ON c.id = h.id
    LEFT JOIN tollgate.labels l ON l.id = h.labels_id
    LEFT JOIN tollgate.end_users u ON u.id = l.end_user_id
    JOIN tollgate.terms t ON t.id = coalesce(c.terms_id, e.terms_id, h.terms_id));