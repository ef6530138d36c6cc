-- Prices of images of the output, cached audio, pages and runs of a provider's tools (D60). The columns may be null, so no row is
-- written. The view gets its prices at the end, so that later kinds can be added to it.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
DROP VIEW "tollgate"."calls";--> statement-breakpoint
ALTER TABLE "tollgate"."days" ADD COLUMN "image_output" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."days" ADD COLUMN "cached_audio_input" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."days" ADD COLUMN "page" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."days" ADD COLUMN "tool_run" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."hours" ADD COLUMN "image_output" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."hours" ADD COLUMN "cached_audio_input" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."hours" ADD COLUMN "page" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."hours" ADD COLUMN "tool_run" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."terms" ADD COLUMN "image_output_pico" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."terms" ADD COLUMN "cached_audio_input_pico" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."terms" ADD COLUMN "page_pico" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."terms" ADD COLUMN "tool_runs" text[];--> statement-breakpoint
ALTER TABLE "tollgate"."terms" ADD COLUMN "tool_run_pico" bigint[];--> statement-breakpoint
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
      t.above_tokens, t.operation, h.margin_bp, t.service_tier, h.session_id, h.agent_id,
      CASE WHEN c.id IS NULL THEN e.details ELSE c.details END AS details,
      t.tool_runs, t.tool_run_pico, t.cache_write_pico, t.cache_write_1h_pico, t.reasoning_pico, t.audio_input_pico, t.audio_output_pico, t.image_input_pico, t.web_search_pico, t.image_output_pico, t.cached_audio_input_pico, t.page_pico
    FROM tollgate.holds h
    LEFT JOIN tollgate.ends e ON e.id = h.id
    LEFT JOIN tollgate.corrections c ON c.id = h.id
    JOIN tollgate.terms t ON t.id = coalesce(c.terms_id, e.terms_id, h.terms_id));