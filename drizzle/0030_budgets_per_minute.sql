-- Budgets per minute (D99). A gateway of an older version counts them by the minutes of the clock: create the first one when none runs
-- any more.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
ALTER TABLE "tollgate"."budget_windows" ADD COLUMN "steps" bigint[];--> statement-breakpoint
ALTER TABLE "tollgate"."budget_windows" ADD COLUMN "step_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tollgate"."budget_windows" ADD COLUMN "waiting_amount" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."budget_windows" ADD COLUMN "waiting_until" timestamp with time zone;--> statement-breakpoint
-- The beginning of the step of 2 s.
CREATE FUNCTION "tollgate"."step_start"(moment timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE
	RETURN date_bin('2 seconds', moment, '2000-01-01 00:00:00+00');--> statement-breakpoint
-- The units that have not refilled, rounded up; 0 for no steps.
CREATE FUNCTION "tollgate"."unrefilled"(steps bigint[]) RETURNS bigint LANGUAGE sql IMMUTABLE
	RETURN (SELECT coalesce(div(sum(x) + 29, 30), 0)::bigint FROM unnest(steps) x);--> statement-breakpoint
-- The steps as they are at the moment. At the end of each step a thirtieth of the amount refills, the oldest first, and nothing of the
-- step that ends.
CREATE FUNCTION "tollgate"."refilled"(steps bigint[], step_at timestamptz, amount bigint, moment timestamptz) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	ended int := least(extract(epoch FROM "tollgate"."step_start"(moment) - step_at) / 2, 1000);
	moved int := least(ended, 30);
	refill bigint;
	part bigint;
BEGIN
	IF steps IS NULL THEN
		RETURN array_fill(0::bigint, ARRAY[31]);
	END IF;
	IF ended <= 0 THEN
		RETURN steps;
	END IF;
	refill := least(amount, (SELECT sum(x) FROM unnest(steps[:30]) x)) + (ended - 1) * amount;
	FOR place IN 1 .. 31 LOOP
		part := least(steps[place], refill);
		steps[place] := steps[place] - part;
		refill := refill - part;
	END LOOP;
	RETURN (SELECT sum(x)::bigint FROM unnest(steps[:moved + 1]) x) || steps[moved + 2:] || array_fill(0::bigint, ARRAY[moved]);
END $$;--> statement-breakpoint
-- The steps with these amounts more, or less, in the steps of their times. What has refilled cannot be given back.
CREATE FUNCTION "tollgate"."counted_in"(steps bigint[], step_at timestamptz, times timestamptz[], amounts bigint[]) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
	place int;
BEGIN
	FOR item IN 1 .. cardinality(times) LOOP
		place := least(31 - ceil(extract(epoch FROM step_at - times[item]) / 2), 31);
		CONTINUE WHEN place < 1 AND amounts[item] < 0;
		place := greatest(place, 1);
		steps[place] := greatest(steps[place] + 30 * amounts[item], 0);
	END LOOP;
	RETURN steps;
END $$;--> statement-breakpoint
-- The time at which so many thirtieths have refilled; NULL for never.
CREATE FUNCTION "tollgate"."refilled_at"(steps bigint[], step_at timestamptz, amount bigint, thirtieths bigint) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	at_first bigint := least(amount, (SELECT sum(x) FROM unnest(steps[:30]) x));
BEGIN
	RETURN step_at + interval '2 seconds' * CASE WHEN thirtieths <= 0 THEN 0 WHEN thirtieths <= at_first THEN 1
		ELSE 1 + least(ceil((thirtieths - at_first)::numeric / nullif(amount, 0)), 1000000) END;
END $$;--> statement-breakpoint
-- A minute has no windows.
CREATE OR REPLACE FUNCTION "tollgate"."window_start"(period text, timezone text, moment timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
	start timestamptz;
BEGIN
	IF period IN ('minute', 'total') THEN
		RETURN '-infinity';
	END IF;
	start := date_trunc(period, moment, timezone);
	IF period <> 'hour' AND (start - interval '1 hour') AT TIME ZONE timezone = start AT TIME ZONE timezone THEN
		RETURN start - interval '1 hour';
	END IF;
	RETURN start;
END $$;--> statement-breakpoint
CREATE OR REPLACE FUNCTION "tollgate"."window_end"(period text, timezone text, moment timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
	IF period IN ('minute', 'total') THEN
		RETURN NULL;
	END IF;
	IF period = 'hour' THEN
		RETURN date_trunc(period, moment, timezone) + interval '1 hour';
	END IF;
	RETURN "tollgate"."window_start"(period, timezone,
		(date_trunc(period, moment AT TIME ZONE timezone) + ('1 ' || period)::interval) AT TIME ZONE timezone);
END $$;
