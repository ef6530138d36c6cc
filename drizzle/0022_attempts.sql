-- Attempts that may have reached a provider and did not become the answer of their call (D93), by months like the other entries
-- of calls. Attempts before this are in the details of ends.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."attempts" (
	"id" uuid NOT NULL,
	"ordinal" integer NOT NULL,
	"account_id" uuid NOT NULL,
	"upstream" text NOT NULL,
	"upstream_key" text,
	"status" integer,
	"failure" text,
	"duration_ms" integer NOT NULL,
	"request_id" text,
	"ended_at" timestamp with time zone NOT NULL,
	CONSTRAINT "attempts_pkey" PRIMARY KEY("id","ordinal"),
	CONSTRAINT "attempt_failure_known" CHECK ("failure" IN ('broken', 'timeout', 'abandoned')),
	CONSTRAINT "attempt_has_outcome" CHECK (("status" IS NULL) <> ("failure" IS NULL))
) PARTITION BY RANGE ("id");
--> statement-breakpoint
CREATE INDEX "attempts_by_time" ON "tollgate"."attempts" USING btree ("ended_at");--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."attempts" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
-- An empty table for each month that has tables; a sealed one refuses entries, and a detached one is not attached.
DO $$ DECLARE
	one record;
	name text;
BEGIN
	FOR one IN SELECT m.month, m.from_id, m.to_id, m.detached_at,
			EXISTS (SELECT FROM tollgate.seals s WHERE s.month = m.month) AS is_sealed
		FROM tollgate.months m WHERE m.dropped_at IS NULL ORDER BY m.month
	LOOP
		name := 'attempts_' || to_char(one.month, 'YYYY_MM');
		EXECUTE format('CREATE TABLE tollgate.%I (LIKE tollgate.attempts INCLUDING ALL, CONSTRAINT in_month CHECK (%s id < %L))',
			name, CASE WHEN one.from_id IS NULL THEN '' ELSE format('id >= %L AND', one.from_id) END, one.to_id);
		EXECUTE format('CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON tollgate.%I
			FOR EACH STATEMENT EXECUTE FUNCTION tollgate.refuse_change()', name);
		IF one.is_sealed THEN
			EXECUTE format('CREATE TRIGGER month_is_sealed BEFORE INSERT ON tollgate.%I
				FOR EACH ROW EXECUTE FUNCTION tollgate.refuse_entry()', name);
		END IF;
		IF one.detached_at IS NULL THEN
			EXECUTE format('ALTER TABLE tollgate.attempts ATTACH PARTITION tollgate.%I FOR VALUES FROM (%s) TO (%L)',
				name, coalesce(quote_literal(one.from_id::text), 'MINVALUE'), one.to_id);
		END IF;
	END LOOP;
END $$;
