-- The margin of an account is its price multiplier (D69). Entries of the journal keep the name of their column, because the hashes of
-- sealed months contain it (D71). A gateway of an older version cannot hold calls after this.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
DROP VIEW "tollgate"."calls";--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" RENAME COLUMN "margin_bp" TO "price_multiplier_bp";--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" RENAME CONSTRAINT "margin_positive" TO "price_multiplier_positive";--> statement-breakpoint
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
      t.tool_runs, t.tool_run_pico, t.cache_write_pico, t.cache_write_1h_pico, t.reasoning_pico, t.audio_input_pico, t.audio_output_pico, t.image_input_pico, t.web_search_pico, t.image_output_pico, t.cached_audio_input_pico, t.page_pico
    FROM tollgate.holds h
    LEFT JOIN tollgate.ends e ON e.id = h.id
    LEFT JOIN tollgate.corrections c ON c.id = h.id
    JOIN tollgate.terms t ON t.id = coalesce(c.terms_id, e.terms_id, h.terms_id));