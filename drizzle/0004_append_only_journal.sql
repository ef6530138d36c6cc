-- A call was one row that changed; from here on it is a hold, its end and perhaps a correction, which never change (D55).
-- Stop all gateways first: an older version cannot use these tables. Open calls stay open and are expired by their checkpoint.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
SET LOCAL maintenance_work_mem = '256MB';--> statement-breakpoint
LOCK TABLE "tollgate"."reservations", "tollgate"."accounts", "tollgate"."keys" IN ACCESS EXCLUSIVE MODE;--> statement-breakpoint
CREATE TYPE "tollgate"."basis" AS ENUM('usage', 'partial', 'estimate', 'none');--> statement-breakpoint
CREATE TYPE "tollgate"."end_outcome" AS ENUM('settled', 'released', 'expired');--> statement-breakpoint
CREATE TYPE "tollgate"."ending" AS ENUM('completed', 'upstream_lost', 'upstream_silent', 'deadline', 'client_left', 'client_stalled', 'gateway_stopped', 'gateway_lost');--> statement-breakpoint
CREATE TYPE "tollgate"."failure" AS ENUM('usage_missing', 'usage_invalid', 'upstream_error', 'upstream_timeout', 'upstream_unavailable', 'no_output', 'internal_error', 'upstream_lost', 'upstream_silent', 'deadline', 'client_left', 'client_stalled', 'gateway_stopped', 'gateway_lost');--> statement-breakpoint
CREATE TABLE "tollgate"."terms" (
	"id" integer PRIMARY KEY NOT NULL GENERATED ALWAYS AS IDENTITY,
	"family" text NOT NULL,
	"model" text NOT NULL,
	"upstream" text NOT NULL,
	"input_pico" bigint NOT NULL,
	"cached_input_pico" bigint NOT NULL,
	"output_pico" bigint NOT NULL,
	"per_call_nano" bigint NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tollgate"."holds" (
	"id" uuid NOT NULL,
	"account_id" uuid NOT NULL,
	"key_id" uuid NOT NULL,
	"gateway_id" uuid NOT NULL,
	"amount_nano" bigint NOT NULL,
	"held_at" timestamp with time zone DEFAULT now() NOT NULL,
	"terms_id" integer NOT NULL,
	"stream" boolean NOT NULL,
	CONSTRAINT "amount_not_negative" CHECK ("amount_nano" >= 0)
);
--> statement-breakpoint
CREATE TABLE "tollgate"."ends" (
	"id" uuid NOT NULL,
	"account_id" uuid NOT NULL,
	"key_id" uuid NOT NULL,
	"charge_nano" bigint NOT NULL,
	"freed_nano" bigint NOT NULL,
	"ended_at" timestamp with time zone DEFAULT now() NOT NULL,
	"terms_id" integer NOT NULL,
	"prompt_tokens" integer,
	"cached_tokens" integer,
	"completion_tokens" integer,
	"ttft_ms" integer,
	"duration_ms" integer,
	"outcome" "tollgate"."end_outcome" NOT NULL,
	"basis" "tollgate"."basis" NOT NULL,
	"ending" "tollgate"."ending",
	"failure" "tollgate"."failure",
	"notes" text[],
	CONSTRAINT "charge_not_negative" CHECK ("charge_nano" >= 0)
);
--> statement-breakpoint
CREATE TABLE "tollgate"."corrections" (
	"id" uuid PRIMARY KEY NOT NULL,
	"account_id" uuid NOT NULL,
	"key_id" uuid NOT NULL,
	"charge_nano" bigint NOT NULL,
	"difference_nano" bigint NOT NULL,
	"corrected_at" timestamp with time zone DEFAULT now() NOT NULL,
	"terms_id" integer NOT NULL,
	"prompt_tokens" integer,
	"cached_tokens" integer,
	"completion_tokens" integer,
	"ttft_ms" integer,
	"duration_ms" integer,
	"basis" "tollgate"."basis" NOT NULL,
	"ending" "tollgate"."ending",
	"failure" "tollgate"."failure",
	"notes" text[],
	CONSTRAINT "correction_not_negative" CHECK ("charge_nano" >= 0)
);
--> statement-breakpoint
-- Its rows are overwritten each second: half of each page stays empty, so that they find room where they are.
CREATE TABLE "tollgate"."checkpoints" (
	"id" uuid PRIMARY KEY NOT NULL,
	"gateway_id" uuid NOT NULL,
	"charge_nano" bigint NOT NULL,
	"basis" "tollgate"."basis" NOT NULL,
	"prompt_tokens" integer,
	"cached_tokens" integer,
	"completion_tokens" integer
) WITH (fillfactor = 50);
--> statement-breakpoint
INSERT INTO "tollgate"."terms" (family, model, upstream, input_pico, cached_input_pico, output_pico, per_call_nano, created_at)
SELECT family, model, upstream, input_pico, cached_input_pico, output_pico, per_call_nano, min(started_at)
FROM "tollgate"."reservations" GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 8;--> statement-breakpoint
INSERT INTO "tollgate"."holds" (id, account_id, key_id, gateway_id, amount_nano, held_at, terms_id, stream)
SELECT r.id, r.account_id, r.key_id, r.gateway_id, r.amount_nano, r.started_at, t.id, r.stream
FROM "tollgate"."reservations" r JOIN "tollgate"."terms" t USING (family, model, upstream, input_pico, cached_input_pico, output_pico, per_call_nano)
ORDER BY r.id;--> statement-breakpoint
INSERT INTO "tollgate"."ends" (id, account_id, key_id, charge_nano, freed_nano, ended_at, terms_id, prompt_tokens, cached_tokens,
	completion_tokens, ttft_ms, duration_ms, outcome, basis, ending, failure, notes)
SELECT r.id, r.account_id, r.key_id, r.charge_nano, r.amount_nano, r.closed_at, t.id, r.prompt_tokens, r.cached_tokens,
	r.completion_tokens, r.ttft_ms, r.duration_ms, r.state::"tollgate"."end_outcome", coalesce(r.basis, 'none')::"tollgate"."basis",
	r.ending::"tollgate"."ending", r.failure::"tollgate"."failure", nullif(r.notes, '{}')
FROM "tollgate"."reservations" r JOIN "tollgate"."terms" t USING (family, model, upstream, input_pico, cached_input_pico, output_pico, per_call_nano)
WHERE r.state <> 'open' ORDER BY r.closed_at, r.id;--> statement-breakpoint
INSERT INTO "tollgate"."checkpoints" (id, gateway_id, charge_nano, basis, prompt_tokens, cached_tokens, completion_tokens)
SELECT id, gateway_id, checkpoint_nano, coalesce(basis, 'none')::"tollgate"."basis", prompt_tokens, cached_tokens, completion_tokens
FROM "tollgate"."reservations" WHERE state = 'open' AND checkpoint_nano > 0;--> statement-breakpoint
-- Nothing may be lost on the way: a difference is a division by zero, and undoes all of this.
SELECT 1 / (h.sums IS NOT DISTINCT FROM r.held AND e.sums IS NOT DISTINCT FROM r.ended)::int
FROM (SELECT ROW(count(*), sum(amount_nano)) AS sums FROM "tollgate"."holds") h,
	(SELECT ROW(count(*), sum(charge_nano)) AS sums FROM "tollgate"."ends") e,
	(SELECT ROW(count(*), sum(amount_nano)) AS held, ROW(count(*) FILTER (WHERE state <> 'open'), sum(charge_nano)) AS ended
	FROM "tollgate"."reservations") r;--> statement-breakpoint
ALTER TABLE "tollgate"."holds" ADD PRIMARY KEY ("id");--> statement-breakpoint
ALTER TABLE "tollgate"."ends" ADD PRIMARY KEY ("id");--> statement-breakpoint
CREATE INDEX "holds_of_account" ON "tollgate"."holds" USING btree ("account_id","id");--> statement-breakpoint
CREATE INDEX "holds_by_time" ON "tollgate"."holds" USING brin ("held_at") WITH (pages_per_range = 32, autosummarize = on);--> statement-breakpoint
CREATE INDEX "ends_by_time" ON "tollgate"."ends" USING brin ("ended_at") WITH (pages_per_range = 32, autosummarize = on);--> statement-breakpoint
CREATE INDEX "corrections_by_time" ON "tollgate"."corrections" USING btree ("corrected_at");--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD COLUMN "is_limited" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" DROP COLUMN "spend_epoch";--> statement-breakpoint
UPDATE "tollgate"."accounts" a SET is_limited = true
FROM (SELECT DISTINCT account_id FROM "tollgate"."keys" WHERE spend_limit_nano IS NOT NULL) k WHERE a.id = k.account_id;--> statement-breakpoint
UPDATE "tollgate"."keys" k SET spent_nano = coalesce((
	SELECT sum(coalesce(r.charge_nano, r.amount_nano)) FROM "tollgate"."reservations" r
	WHERE r.key_id = k.id AND r.started_at >= k.spent_since), 0)
WHERE k.spend_limit_nano IS NOT NULL;--> statement-breakpoint
DROP TABLE "tollgate"."reservations";--> statement-breakpoint
CREATE FUNCTION "tollgate"."refuse_change"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	RAISE EXCEPTION 'entries of %.% are added and never changed', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."credits" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."terms" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."holds" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."ends" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."corrections" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
-- Not of empty tables: the planner takes a table that was never counted for one of ten pages, and finds its rows by an index.
DO $$ BEGIN
	IF EXISTS (SELECT FROM "tollgate"."holds") THEN ANALYZE "tollgate"."holds", "tollgate"."ends", "tollgate"."terms"; END IF;
END $$;--> statement-breakpoint
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
      coalesce(c.notes, e.notes, '{}') AS notes
    FROM tollgate.holds h
    LEFT JOIN tollgate.ends e ON e.id = h.id
    LEFT JOIN tollgate.corrections c ON c.id = h.id
    JOIN tollgate.terms t ON t.id = coalesce(c.terms_id, e.terms_id, h.terms_id));