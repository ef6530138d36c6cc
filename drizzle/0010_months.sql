-- The journal by months (D71). The entries stay where they are: their tables become the partitions of everything up to the end
-- of this month. Each is read once, to prove that no id is above.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."months" (
	"month" date PRIMARY KEY NOT NULL,
	"from_id" uuid,
	"to_id" uuid NOT NULL
);
--> statement-breakpoint
LOCK TABLE "tollgate"."holds", "tollgate"."ends", "tollgate"."corrections" IN ACCESS EXCLUSIVE MODE;--> statement-breakpoint
CREATE FUNCTION "tollgate"."month_id"(month date) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
	SELECT (lpad(to_hex(extract(epoch FROM month)::bigint * 1000), 12, '0') || '00000000000000000000')::uuid
$$;--> statement-breakpoint
-- The month after the last id, if the database's clock was ever ahead.
INSERT INTO "tollgate"."months" (month, to_id)
SELECT m.month, "tollgate"."month_id"((m.month + interval '1 month')::date)
FROM (
	SELECT date_trunc('month', greatest(now() AT TIME ZONE 'UTC', to_timestamp(
		('x' || lpad(left(replace((SELECT id FROM "tollgate"."holds" ORDER BY id DESC LIMIT 1)::text, '-', ''), 12), 16, '0'))::bit(64)::bigint / 1000.0) AT TIME ZONE 'UTC'))::date AS month
) m;--> statement-breakpoint
DO $$ DECLARE
	tables text[] := ARRAY['holds', 'ends', 'corrections'];
	one text;
	first text;
	bound uuid;
	suffix text;
	indexed record;
BEGIN
	SELECT to_id, to_char(month, 'YYYY_MM') INTO bound, suffix FROM tollgate.months;
	FOREACH one IN ARRAY tables LOOP
		first := one || '_' || suffix;
		EXECUTE format('ALTER TABLE tollgate.%I RENAME TO %I', one, first);
		EXECUTE format('CREATE TABLE tollgate.%I (LIKE tollgate.%I INCLUDING ALL EXCLUDING INDEXES) PARTITION BY RANGE (id)', one, first);
		-- The indexes of the whole have the names; those of a partition add its month.
		FOR indexed IN SELECT i.indexrelid::regclass::text AS name, c.relname, pg_get_indexdef(i.indexrelid) AS made, i.indisprimary
			FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = ('tollgate.' || quote_ident(first))::regclass
		LOOP
			EXECUTE format('ALTER INDEX tollgate.%I RENAME TO %I', indexed.relname, indexed.relname || '_' || suffix);
			IF indexed.indisprimary THEN
				EXECUTE format('ALTER TABLE tollgate.%I ADD CONSTRAINT %I PRIMARY KEY (id)', one, indexed.relname);
			ELSE
				EXECUTE replace(indexed.made, '.' || quote_ident(first) || ' ', '.' || quote_ident(one) || ' ');
			END IF;
		END LOOP;
		EXECUTE format('ALTER TABLE tollgate.%I ADD CONSTRAINT in_month CHECK (id < %L)', first, bound);
		EXECUTE format('ALTER TABLE tollgate.%I ATTACH PARTITION tollgate.%I FOR VALUES FROM (MINVALUE) TO (%L)', one, first, bound);
		EXECUTE format('CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON tollgate.%I
			FOR EACH STATEMENT EXECUTE FUNCTION tollgate.refuse_change()', one);
	END LOOP;
END $$;--> statement-breakpoint
-- The view names the tables that are partitions now.
CREATE OR REPLACE VIEW "tollgate"."calls" AS (
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
      t.cache_write_pico, t.cache_write_1h_pico, t.reasoning_pico, t.audio_input_pico, t.audio_output_pico, t.image_input_pico,
      t.web_search_pico, t.above_tokens, t.operation, h.margin_bp, t.service_tier
    FROM tollgate.holds h
    LEFT JOIN tollgate.ends e ON e.id = h.id
    LEFT JOIN tollgate.corrections c ON c.id = h.id
    JOIN tollgate.terms t ON t.id = coalesce(c.terms_id, e.terms_id, h.terms_id));
