-- Credit grants (D95) and the credit line. All new columns are null or have a constant default, so no table is rewritten, and an
-- account without dated credits stays as it is. A gateway of version 0.2 does not know them: use them once all gateways are updated.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."grant_entries" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"account_id" uuid NOT NULL,
	"credit_id" uuid NOT NULL,
	"change" text NOT NULL,
	"amount_nano" bigint NOT NULL,
	"at" timestamp with time zone DEFAULT now() NOT NULL,
	"cause_id" uuid,
	"reason" text,
	"xid" "xid8" DEFAULT pg_current_xact_id(),
	CONSTRAINT "change_known" CHECK ("change" IN ('started', 'drawn', 'expired', 'voided', 'moved'))
);
--> statement-breakpoint
CREATE TABLE "tollgate"."grant_pins" (
	"call_id" uuid NOT NULL,
	"credit_id" uuid NOT NULL,
	"account_id" uuid NOT NULL,
	"change" text NOT NULL,
	"amount_nano" bigint NOT NULL,
	"place" bigint GENERATED ALWAYS AS IDENTITY (sequence name "tollgate"."grant_pins_place_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	CONSTRAINT "grant_pins_pkey" PRIMARY KEY("call_id","credit_id"),
	CONSTRAINT "pin_positive" CHECK ("amount_nano" > 0)
);
--> statement-breakpoint
CREATE TABLE "tollgate"."grants" (
	"credit_id" uuid PRIMARY KEY NOT NULL,
	"account_id" uuid NOT NULL,
	"priority" integer NOT NULL,
	"starts_at" timestamp with time zone,
	"expires_at" timestamp with time zone,
	"voided_at" timestamp with time zone,
	"void_reason" text,
	"made_at" timestamp with time zone NOT NULL,
	"left_nano" bigint NOT NULL,
	CONSTRAINT "left_not_negative" CHECK ("left_nano" >= 0)
);
--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD COLUMN "next_change_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD COLUMN "credit_limit_nano" bigint;--> statement-breakpoint
ALTER TABLE "tollgate"."credits" ADD COLUMN "kind" text;--> statement-breakpoint
ALTER TABLE "tollgate"."credits" ADD COLUMN "priority" integer DEFAULT 50 NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."credits" ADD COLUMN "effective_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tollgate"."credits" ADD COLUMN "expires_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tollgate"."credits" ADD COLUMN "source_ref" text;--> statement-breakpoint
CREATE INDEX "grant_entries_by_xid" ON "tollgate"."grant_entries" USING btree ("xid");--> statement-breakpoint
CREATE INDEX "grant_entries_of_account" ON "tollgate"."grant_entries" USING btree ("account_id","credit_id");--> statement-breakpoint
CREATE INDEX "grant_entries_of_ended" ON "tollgate"."grant_entries" USING btree ("change","amount_nano") WHERE "tollgate"."grant_entries"."change" IN ('expired', 'voided');--> statement-breakpoint
CREATE INDEX "grant_pins_of_account" ON "tollgate"."grant_pins" USING btree ("account_id");--> statement-breakpoint
CREATE INDEX "grants_of_account" ON "tollgate"."grants" USING btree ("account_id");--> statement-breakpoint
CREATE INDEX "accounts_to_change" ON "tollgate"."accounts" USING btree ("next_change_at") WHERE "next_change_at" < 'infinity';--> statement-breakpoint
CREATE UNIQUE INDEX "credit_by_source_ref" ON "tollgate"."credits" USING btree ("source_ref") WHERE "tollgate"."credits"."source_ref" IS NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."accounts" ADD CONSTRAINT "credit_limit_not_negative" CHECK ("credit_limit_nano" >= 0);--> statement-breakpoint
ALTER TABLE "tollgate"."credits" ADD CONSTRAINT "credit_kind_known" CHECK ("kind" IN ('payment', 'promotion', 'plan', 'refund', 'correction', 'moved'));--> statement-breakpoint
ALTER TABLE "tollgate"."credits" ADD CONSTRAINT "priority_known" CHECK ("priority" BETWEEN 0 AND 100);--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."grant_entries" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
-- Brings what is left of an account's grants up to its balance. The caller has locked the account. What calls have spent since the
-- last time, and what an operator has taken off, is drawn in one order: by priority, then by expiry, then by age. So is a debt,
-- which the next grant pays. Money that came back returns to the grants that were drawn last.
CREATE FUNCTION "tollgate"."settle_grants"(payer uuid) RETURNS void LANGUAGE plpgsql AS $$ DECLARE
	lost numeric;
	spent numeric;
	-- Draws are in the order of the account's lock, of which the start of a transaction says nothing.
	moment constant timestamptz := clock_timestamp();
BEGIN
	-- A call that has ended has spent its pinned money first. The rest of that is gone.
	WITH pinned AS MATERIALIZED (
		SELECT p.*, (SELECT e.charge_nano FROM tollgate.ends e WHERE e.id = p.call_id) AS charge_nano
		FROM tollgate.grant_pins p WHERE p.account_id = payer
	), drawn AS MATERIALIZED (
		SELECT x.*, least(x.amount_nano, greatest(0, x.charge_nano - x.before_nano)) AS drawn_nano
		FROM (
			SELECT p.*, sum(p.amount_nano) OVER (PARTITION BY p.call_id ORDER BY p.place) - p.amount_nano AS before_nano
			FROM pinned p WHERE p.charge_nano IS NOT NULL) x
	), freed AS (
		DELETE FROM tollgate.grant_pins p USING drawn d WHERE p.call_id = d.call_id AND p.credit_id = d.credit_id
	), written AS (
		INSERT INTO tollgate.grant_entries (account_id, credit_id, change, amount_nano, at, cause_id)
		SELECT payer, d.credit_id, c.change, c.amount_nano, moment, d.call_id FROM drawn d
			CROSS JOIN LATERAL (VALUES ('drawn', d.drawn_nano), (d.change, d.amount_nano - d.drawn_nano)) AS c (change, amount_nano)
		WHERE c.amount_nano > 0
		RETURNING change, amount_nano
	)
	SELECT sum(w.amount_nano) FILTER (WHERE w.change <> 'drawn') INTO lost FROM written w;
	IF lost > 0 THEN UPDATE tollgate.accounts a SET balance_nano = a.balance_nano - lost WHERE a.id = payer; END IF;

	SELECT coalesce((SELECT sum(g.left_nano) FROM tollgate.grants g WHERE g.account_id = payer AND g.starts_at IS NULL), 0)
		+ coalesce((SELECT sum(p.amount_nano) FROM tollgate.grant_pins p WHERE p.account_id = payer), 0) - a.balance_nano
	INTO spent FROM tollgate.accounts a WHERE a.id = payer;
	IF spent > 0 THEN
		WITH drawn AS MATERIALIZED (
			SELECT x.credit_id, least(x.left_nano, spent - x.before_nano) AS drawn_nano
			FROM (
				SELECT g.credit_id, g.left_nano, sum(g.left_nano) OVER (
					ORDER BY g.priority, coalesce(g.expires_at, 'infinity'), g.made_at, g.credit_id) - g.left_nano AS before_nano
				FROM tollgate.grants g WHERE g.account_id = payer AND g.starts_at IS NULL) x
			WHERE spent > x.before_nano AND x.left_nano > 0
		), taken AS (
			UPDATE tollgate.grants g SET left_nano = g.left_nano - d.drawn_nano FROM drawn d WHERE g.credit_id = d.credit_id
		)
		INSERT INTO tollgate.grant_entries (account_id, credit_id, change, amount_nano, at)
		SELECT payer, d.credit_id, 'drawn', d.drawn_nano, moment FROM drawn d;
		DELETE FROM tollgate.grants g WHERE g.account_id = payer AND g.left_nano = 0;
	ELSIF spent < 0 THEN
		WITH past AS MATERIALIZED (
			SELECT n.credit_id, sum(n.amount_nano) FILTER (WHERE n.change = 'drawn') AS drawn_nano,
				max(n.at) FILTER (WHERE n.change = 'drawn') AS at,
				bool_or(n.change = 'voided') AS is_void, bool_or(n.change = 'expired') AS is_expired
			FROM tollgate.grant_entries n WHERE n.account_id = payer GROUP BY n.credit_id
		), given AS MATERIALIZED (
			SELECT x.*, least(x.drawn_nano, -spent - x.before_nano) AS given_nano
			FROM (
				SELECT p.*, c.priority, c.expires_at, c.created_at, sum(p.drawn_nano) OVER (
					ORDER BY p.at DESC, c.priority DESC, coalesce(c.expires_at, 'infinity') DESC, c.created_at DESC, c.id DESC)
					- p.drawn_nano AS before_nano
				FROM past p JOIN tollgate.credits c ON c.id = p.credit_id WHERE p.drawn_nano > 0) x
			WHERE -spent > x.before_nano
		), parted AS MATERIALIZED (
			-- Money of a grant that is over is gone when it comes back: calls that begin later must not hold it.
			SELECT n.*, CASE
				WHEN n.is_void OR p.change = 'voided' THEN 'voided'
				WHEN n.is_expired OR p.change = 'expired' THEN 'expired'
				WHEN n.expires_at <= now() AND NOT EXISTS (SELECT FROM tollgate.grants g WHERE g.credit_id = n.credit_id) THEN 'expired'
				END AS over
			FROM given n LEFT JOIN LATERAL (
				SELECT p.change FROM tollgate.grant_pins p WHERE p.account_id = payer AND p.credit_id = n.credit_id LIMIT 1) p ON true
		), back AS (
			INSERT INTO tollgate.grants AS g (credit_id, account_id, priority, expires_at, made_at, left_nano)
			SELECT n.credit_id, payer, n.priority, n.expires_at, n.created_at, n.given_nano FROM parted n WHERE n.over IS NULL
			ON CONFLICT (credit_id) DO UPDATE SET left_nano = g.left_nano + excluded.left_nano
		), written AS (
			INSERT INTO tollgate.grant_entries (account_id, credit_id, change, amount_nano, at)
			SELECT payer, n.credit_id, c.change, c.amount_nano, moment FROM parted n
				CROSS JOIN LATERAL (VALUES ('drawn', -n.given_nano), (n.over, n.given_nano)) AS c (change, amount_nano)
			WHERE c.change IS NOT NULL
			RETURNING change, amount_nano
		)
		SELECT sum(w.amount_nano) FILTER (WHERE w.change <> 'drawn') INTO lost FROM written w;
		IF lost > 0 THEN UPDATE tollgate.accounts a SET balance_nano = a.balance_nano - lost WHERE a.id = payer; END IF;
	END IF;
END $$;--> statement-breakpoint
-- Applies the starts, expiries and voids of an account's grants that are due, in the order of their times. An expired grant keeps
-- what the open calls hold of it: holds take the money in the order in which it is drawn, the older call first.
CREATE FUNCTION "tollgate"."change_grants"(payer uuid) RETURNS void LANGUAGE plpgsql AS $$ DECLARE
	due record;
	before_nano numeric;
	unpinned_nano numeric;
	pinned_nano numeric;
	next_at timestamptz;
BEGIN
	PERFORM FROM tollgate.accounts a WHERE a.id = payer AND a.next_change_at IS NOT NULL FOR NO KEY UPDATE;
	IF NOT FOUND THEN RETURN; END IF;
	PERFORM tollgate.settle_grants(payer);
	LOOP
		SELECT g.*, coalesce(g.starts_at, g.voided_at, g.expires_at) AS at INTO due
		FROM tollgate.grants g
		WHERE g.account_id = payer AND coalesce(g.starts_at, g.voided_at, g.expires_at) <= now()
		ORDER BY coalesce(g.starts_at, g.voided_at, g.expires_at), g.starts_at IS NULL,
			g.priority, coalesce(g.expires_at, 'infinity'), g.made_at, g.credit_id LIMIT 1;
		EXIT WHEN NOT FOUND;
		IF due.starts_at IS NOT NULL THEN
			INSERT INTO tollgate.grant_entries (account_id, credit_id, change, amount_nano, at)
			VALUES (payer, due.credit_id, 'started', due.left_nano, due.starts_at);
			UPDATE tollgate.grants g SET starts_at = NULL WHERE g.credit_id = due.credit_id;
			UPDATE tollgate.accounts a SET balance_nano = a.balance_nano + due.left_nano WHERE a.id = payer;
			PERFORM tollgate.settle_grants(payer);
			CONTINUE;
		END IF;
		SELECT coalesce(sum(g.left_nano), 0) INTO before_nano FROM tollgate.grants g
		WHERE g.account_id = payer AND g.starts_at IS NULL
			AND (g.priority, coalesce(g.expires_at, 'infinity'), g.made_at, g.credit_id)
				< (due.priority, coalesce(due.expires_at, 'infinity'), due.made_at, due.credit_id);
		SELECT a.held_nano - coalesce((SELECT sum(p.amount_nano) FROM tollgate.grant_pins p WHERE p.account_id = payer), 0)
		INTO unpinned_nano FROM tollgate.accounts a WHERE a.id = payer;
		pinned_nano := 0;
		IF unpinned_nano > before_nano THEN
			WITH open AS MATERIALIZED (
				SELECT h.id, h.amount_nano
					- coalesce((SELECT sum(p.amount_nano) FROM tollgate.grant_pins p WHERE p.call_id = h.id), 0) AS free_nano
				FROM tollgate.holds h
				WHERE h.account_id = payer
					AND h.id >= (SELECT min(w.floor_id::text)::uuid FROM tollgate.gateways w WHERE w.swept_at IS NULL)
					AND NOT EXISTS (SELECT FROM tollgate.ends e WHERE e.id = h.id)
			), laid AS (
				SELECT o.id, greatest(o.from_nano, before_nano) AS from_nano,
					least(o.from_nano + o.free_nano, before_nano + due.left_nano) AS to_nano
				FROM (SELECT o.*, sum(o.free_nano) OVER (ORDER BY o.id) - o.free_nano AS from_nano FROM open o) o
			), pinned AS (
				INSERT INTO tollgate.grant_pins (call_id, credit_id, account_id, change, amount_nano)
				SELECT l.id, due.credit_id, payer, CASE WHEN due.voided_at IS NULL THEN 'expired' ELSE 'voided' END, l.to_nano - l.from_nano
				FROM laid l WHERE l.to_nano > l.from_nano
				RETURNING amount_nano
			)
			SELECT coalesce(sum(p.amount_nano), 0) INTO pinned_nano FROM pinned p;
		END IF;
		DELETE FROM tollgate.grants g WHERE g.credit_id = due.credit_id;
		-- A void is an entry even if open calls hold all of the grant: money that comes back later is gone with it.
		IF due.left_nano > pinned_nano OR due.voided_at IS NOT NULL THEN
			INSERT INTO tollgate.grant_entries (account_id, credit_id, change, amount_nano, at, reason)
			VALUES (payer, due.credit_id, CASE WHEN due.voided_at IS NULL THEN 'expired' ELSE 'voided' END,
				due.left_nano - pinned_nano, due.at, due.void_reason);
			UPDATE tollgate.accounts a SET balance_nano = a.balance_nano - (due.left_nano - pinned_nano) WHERE a.id = payer;
		END IF;
	END LOOP;
	SELECT CASE WHEN EXISTS (SELECT FROM tollgate.grant_pins p WHERE p.account_id = payer) THEN '-infinity'
		ELSE coalesce(min(coalesce(g.starts_at, g.voided_at, g.expires_at)), 'infinity') END INTO next_at
	FROM tollgate.grants g WHERE g.account_id = payer;
	UPDATE tollgate.accounts a SET next_change_at = next_at WHERE a.id = payer AND a.next_change_at <> next_at;
END $$;--> statement-breakpoint
-- Begins to count the credits of an account as grants, from its first one with a date or a priority on. The caller has locked it.
CREATE FUNCTION "tollgate"."track_grants"(payer uuid) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
	UPDATE tollgate.accounts a SET next_change_at = 'infinity' WHERE a.id = payer AND a.next_change_at IS NULL;
	IF FOUND THEN
		INSERT INTO tollgate.grants (credit_id, account_id, priority, made_at, left_nano)
		SELECT c.id, payer, c.priority, c.created_at, c.amount_nano FROM tollgate.credits c
		WHERE c.account_id = payer AND c.amount_nano > 0;
	END IF;
	PERFORM tollgate.change_grants(payer);
END $$;--> statement-breakpoint
-- Adds a credit, once by its id and its reference: `credited`, or the reason why not. An account without grants stays one if the
-- credit has neither a date nor another priority than usual.
CREATE FUNCTION "tollgate"."add_credit"(new_id uuid, payer uuid, amount bigint, why text, new_kind text, new_priority integer,
	effective timestamptz, expires timestamptz, ref text, most bigint) RETURNS text LANGUAGE plpgsql AS $$ DECLARE
	account record;
	later_nano numeric;
	is_later constant boolean := coalesce(effective > now(), false);
BEGIN
	SELECT a.moved_to, a.next_change_at IS NOT NULL OR new_priority <> 50 OR is_later OR expires IS NOT NULL AS has_grants INTO account
	FROM tollgate.accounts a WHERE a.id = payer FOR NO KEY UPDATE;
	IF NOT FOUND THEN RETURN 'no_account'; END IF;
	IF account.moved_to IS NOT NULL THEN RETURN 'account_moving'; END IF;
	IF EXISTS (SELECT FROM tollgate.credits c WHERE c.id = new_id OR c.source_ref = ref) THEN RETURN 'known'; END IF;
	IF expires <= now() THEN RETURN 'expired'; END IF;
	IF account.has_grants THEN PERFORM tollgate.track_grants(payer); END IF;
	SELECT coalesce(sum(g.left_nano), 0) INTO later_nano FROM tollgate.grants g WHERE g.account_id = payer AND g.starts_at IS NOT NULL;
	IF (SELECT abs(a.balance_nano + later_nano + amount) > most FROM tollgate.accounts a WHERE a.id = payer) THEN
		RETURN 'out_of_range';
	END IF;
	INSERT INTO tollgate.credits (id, account_id, amount_nano, reason, kind, priority, effective_at, expires_at, source_ref)
	VALUES (new_id, payer, amount, why, new_kind, new_priority, effective, expires, ref) ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN RETURN 'known'; END IF;
	IF NOT is_later THEN
		UPDATE tollgate.accounts a SET balance_nano = a.balance_nano + amount WHERE a.id = payer;
	END IF;
	IF account.has_grants THEN
		IF amount > 0 THEN
			INSERT INTO tollgate.grants (credit_id, account_id, priority, starts_at, expires_at, made_at, left_nano)
			VALUES (new_id, payer, new_priority, CASE WHEN is_later THEN effective END, expires, now(), amount);
		END IF;
		PERFORM tollgate.change_grants(payer);
	END IF;
	RETURN 'credited';
END $$;--> statement-breakpoint
-- Takes back what is left of a credit, less what open calls hold of it: `voided`, or the reason why not.
CREATE FUNCTION "tollgate"."void_credit"(old_id uuid, why text) RETURNS text LANGUAGE plpgsql AS $$ DECLARE
	credit record;
	left_of record;
BEGIN
	SELECT c.account_id, c.amount_nano INTO credit FROM tollgate.credits c WHERE c.id = old_id;
	IF NOT FOUND THEN RETURN 'no_credit'; END IF;
	IF credit.amount_nano < 0 THEN RETURN 'no_grant'; END IF;
	IF (SELECT a.moved_to IS NOT NULL FROM tollgate.accounts a WHERE a.id = credit.account_id FOR NO KEY UPDATE) THEN
		RETURN 'nothing_left';
	END IF;
	PERFORM tollgate.track_grants(credit.account_id);
	SELECT g.starts_at, g.left_nano INTO left_of FROM tollgate.grants g WHERE g.credit_id = old_id;
	IF NOT FOUND THEN RETURN 'nothing_left'; END IF;
	IF left_of.starts_at IS NULL THEN
		UPDATE tollgate.grants g SET (voided_at, void_reason) = (now(), why) WHERE g.credit_id = old_id;
	ELSE
		INSERT INTO tollgate.grant_entries (account_id, credit_id, change, amount_nano, reason)
		VALUES (credit.account_id, old_id, 'started', left_of.left_nano, NULL),
			(credit.account_id, old_id, 'voided', left_of.left_nano, why);
		DELETE FROM tollgate.grants g WHERE g.credit_id = old_id;
	END IF;
	PERFORM tollgate.change_grants(credit.account_id);
	RETURN 'voided';
END $$;--> statement-breakpoint
-- Takes the grants of an account that leaves for another shard. Its calls have ended, and its balance is taken by the caller.
CREATE FUNCTION "tollgate"."leave_grants"(payer uuid, cause uuid) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
	PERFORM tollgate.settle_grants(payer);
	WITH gone AS (
		DELETE FROM tollgate.grants g WHERE g.account_id = payer RETURNING g.credit_id, g.left_nano
	)
	INSERT INTO tollgate.grant_entries (account_id, credit_id, change, amount_nano, cause_id)
	SELECT payer, g.credit_id, 'moved', g.left_nano, cause FROM gone g;
	RETURN true;
END $$;--> statement-breakpoint
-- Adds the balance that an account brought from another shard, once: its grants (an array of credits, each with its new id; null for
-- none), and the rest as a credit `rest_id`. A rest above 0 is a grant too if the account has some.
CREATE FUNCTION "tollgate"."arrive_grants"(payer uuid, rest_id uuid, amount numeric, why text, brought json) RETURNS void LANGUAGE plpgsql AS $$ DECLARE
	has_grants boolean;
	rest_nano numeric;
	started_nano numeric;
BEGIN
	SELECT brought IS NOT NULL OR a.next_change_at IS NOT NULL INTO has_grants
	FROM tollgate.accounts a WHERE a.id = payer FOR NO KEY UPDATE;
	IF NOT FOUND OR EXISTS (SELECT FROM tollgate.credits c WHERE c.id = rest_id) THEN RETURN; END IF;
	IF has_grants THEN PERFORM tollgate.track_grants(payer); END IF;
	WITH come AS MATERIALIZED (
		SELECT b.*, CASE WHEN b.starts_at > now() THEN b.starts_at END AS later_at
		FROM json_to_recordset(coalesce(brought, '[]')) AS b (id uuid, amount_nano bigint, kind text, priority integer,
			starts_at timestamptz, expires_at timestamptz, made_at timestamptz)
	), credited AS (
		INSERT INTO tollgate.credits (id, account_id, amount_nano, reason, kind, priority, effective_at, expires_at)
		SELECT c.id, payer, c.amount_nano, why, c.kind, c.priority, c.later_at, c.expires_at FROM come c
	), granted AS (
		INSERT INTO tollgate.grants (credit_id, account_id, priority, starts_at, expires_at, made_at, left_nano)
		SELECT c.id, payer, c.priority, c.later_at, c.expires_at, c.made_at, c.amount_nano FROM come c
	)
	SELECT amount - coalesce(sum(c.amount_nano) FILTER (WHERE c.starts_at IS NULL), 0),
		coalesce(sum(c.amount_nano) FILTER (WHERE c.later_at IS NULL), 0)
	INTO rest_nano, started_nano FROM come c;
	INSERT INTO tollgate.credits (id, account_id, amount_nano, reason) VALUES (rest_id, payer, rest_nano, why);
	IF has_grants AND rest_nano > 0 THEN
		INSERT INTO tollgate.grants (credit_id, account_id, priority, made_at, left_nano) VALUES (rest_id, payer, 50, now(), rest_nano);
	END IF;
	UPDATE tollgate.accounts a SET balance_nano = a.balance_nano + rest_nano + started_nano WHERE a.id = payer;
	PERFORM tollgate.change_grants(payer);
END $$;