-- Budgets (D97). A gateway of an older version keeps working, but does not count the calls that it holds in budgets: create the first
-- budget, and set the first group of a key, when no gateway of an older version runs any more.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."budget_crossings" (
	"budget_id" uuid NOT NULL,
	"member" text DEFAULT '' NOT NULL,
	"since" timestamp with time zone NOT NULL,
	"percent" integer NOT NULL,
	"account_id" uuid NOT NULL,
	"spent" bigint NOT NULL,
	"amount" bigint NOT NULL,
	"crossed_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "budget_crossings_pkey" PRIMARY KEY("budget_id","member","since","percent")
);
--> statement-breakpoint
CREATE TABLE "tollgate"."budget_entries" (
	"id" uuid PRIMARY KEY NOT NULL,
	"budget_id" uuid NOT NULL,
	"account_id" uuid NOT NULL,
	"change" text NOT NULL,
	"settings" jsonb NOT NULL,
	"actor" text NOT NULL,
	"reason" text,
	"made_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tollgate"."budget_windows" (
	"id" uuid NOT NULL,
	"member" text DEFAULT '' NOT NULL,
	"account_id" uuid NOT NULL,
	"since" timestamp with time zone NOT NULL,
	"spent" bigint NOT NULL,
	"held" bigint NOT NULL,
	"carried" bigint DEFAULT 0 NOT NULL,
	"crossed_percent" integer DEFAULT 0 NOT NULL,
	"members" integer DEFAULT 0 NOT NULL,
	CONSTRAINT "budget_windows_pkey" PRIMARY KEY("id","member"),
	CONSTRAINT "budget_held_not_negative" CHECK ("tollgate"."budget_windows"."held" >= 0)
);
--> statement-breakpoint
CREATE TABLE "tollgate"."budgets" (
	"id" uuid PRIMARY KEY NOT NULL,
	"account_id" uuid NOT NULL,
	"name" text NOT NULL,
	"selector" text NOT NULL,
	"selected" text,
	"is_each" boolean NOT NULL,
	"scope" text NOT NULL,
	"unit" text NOT NULL,
	"amount" bigint NOT NULL,
	"period" text NOT NULL,
	"timezone" text NOT NULL,
	"is_hard" boolean NOT NULL,
	"thresholds" integer[] NOT NULL,
	"raised_amount" bigint,
	"raised_until" timestamp with time zone,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "budget_not_negative" CHECK ("tollgate"."budgets"."amount" >= 0)
);
--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD COLUMN "budgets_version" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."holds" ADD COLUMN "group_path" text;--> statement-breakpoint
ALTER TABLE "tollgate"."holds" ADD COLUMN "held_tokens" integer;--> statement-breakpoint
ALTER TABLE "tollgate"."keys" ADD COLUMN "group_path" text;--> statement-breakpoint
CREATE INDEX "budget_crossings_of_account" ON "tollgate"."budget_crossings" USING btree ("account_id","crossed_at");--> statement-breakpoint
CREATE INDEX "budget_entries_of_account" ON "tollgate"."budget_entries" USING btree ("account_id","id");--> statement-breakpoint
CREATE INDEX "budget_windows_of_account" ON "tollgate"."budget_windows" USING btree ("account_id");--> statement-breakpoint
CREATE INDEX "budgets_of_account" ON "tollgate"."budgets" USING btree ("account_id","scope");--> statement-breakpoint
ALTER TABLE "tollgate"."budget_windows" SET (fillfactor = 50);--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."budget_entries" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."budget_crossings" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
-- For each call, in the order of their places: true if every slot that it needs has room. Then it takes its amounts from all of them,
-- otherwise from none. `places`, `slots` and `needs` have one item for each call and slot, and the items of a call are together.
CREATE FUNCTION "tollgate"."admitted"(places int[], slots int[], needs bigint[], rooms bigint[]) RETURNS boolean[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	admitted boolean[] := '{}';
	items int := cardinality(places);
	first int := 1;
	after int;
	fits boolean;
BEGIN
	WHILE first <= items LOOP
		fits := true;
		after := first;
		WHILE after <= items AND places[after] = places[first] LOOP
			fits := fits AND rooms[slots[after]] >= needs[after];
			after := after + 1;
		END LOOP;
		IF fits THEN
			FOR item IN first .. after - 1 LOOP
				rooms[slots[item]] := rooms[slots[item]] - needs[item];
			END LOOP;
		END IF;
		admitted[places[first]] := fits;
		first := after;
	END LOOP;
	RETURN admitted;
END $$;--> statement-breakpoint
-- The scopes of the budgets that a call counts in, of each end user and each value of a tag too.
CREATE FUNCTION "tollgate"."scopes_of"(key_id uuid, group_path text, model text, end_user_id uuid, tags jsonb) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	scopes text[] := ARRAY['all', 'key:' || key_id, 'model:' || model];
	ancestor text := group_path;
BEGIN
	IF end_user_id IS NOT NULL THEN
		scopes := scopes || ARRAY['end_user', 'end_user:' || end_user_id];
	END IF;
	IF tags IS NOT NULL THEN
		scopes := scopes || ARRAY(SELECT unnest(ARRAY['tag:' || key, 'tag:' || key || '=' || value]) FROM jsonb_each_text(tags));
	END IF;
	WHILE ancestor <> '' LOOP
		scopes := scopes || ('group:' || ancestor);
		ancestor := left(ancestor, greatest(length(ancestor) - strpos(reverse(ancestor), '/'), 0) * (strpos(ancestor, '/') > 0)::int);
	END LOOP;
	RETURN scopes;
END $$;--> statement-breakpoint
-- Where clocks go back at midnight, a day begins twice. Its window begins with the first time.
CREATE FUNCTION "tollgate"."window_start"(period text, timezone text, moment timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
	start timestamptz;
BEGIN
	IF period = 'total' THEN
		RETURN '-infinity';
	END IF;
	start := date_trunc(period, moment, timezone);
	IF period <> 'hour' AND (start - interval '1 hour') AT TIME ZONE timezone = start AT TIME ZONE timezone THEN
		RETURN start - interval '1 hour';
	END IF;
	RETURN start;
END $$;--> statement-breakpoint
CREATE FUNCTION "tollgate"."window_end"(period text, timezone text, moment timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
	IF period = 'total' THEN
		RETURN NULL;
	END IF;
	IF period = 'hour' THEN
		RETURN date_trunc(period, moment, timezone) + interval '1 hour';
	END IF;
	RETURN "tollgate"."window_start"(period, timezone,
		(date_trunc(period, moment AT TIME ZONE timezone) + ('1 ' || period)::interval) AT TIME ZONE timezone);
END $$;
