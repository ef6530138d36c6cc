-- Finance (D106, D107): refunds of calls, credits that came with a move, and records of audits. The new columns are null, so no table is rewritten.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."audits" (
	"id" uuid PRIMARY KEY NOT NULL,
	"actor" text NOT NULL,
	"is_full" boolean NOT NULL,
	"started_at" timestamp with time zone NOT NULL,
	"checked_at" timestamp with time zone NOT NULL,
	"accounts" bigint NOT NULL,
	"open_holds" bigint NOT NULL,
	"violations" bigint NOT NULL,
	"hash" text NOT NULL,
	"entries_until" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."audits" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
ALTER TABLE "tollgate"."credits" ADD COLUMN "call_id" uuid;--> statement-breakpoint
ALTER TABLE "tollgate"."credits" ADD COLUMN "moved_with" uuid;--> statement-breakpoint
CREATE INDEX "credits_of_call" ON "tollgate"."credits" USING btree ("call_id") WHERE "tollgate"."credits"."call_id" IS NOT NULL;--> statement-breakpoint
-- The refunds of a call in this shard, less what of them was voided.
CREATE FUNCTION "tollgate"."refunded_of"(call uuid) RETURNS numeric LANGUAGE sql STABLE AS $$
	SELECT coalesce(sum(c.amount_nano - coalesce((SELECT sum(n.amount_nano) FROM tollgate.grant_entries n
		WHERE n.account_id = c.account_id AND n.credit_id = c.id AND n.change = 'voided'), 0)), 0)
	FROM tollgate.credits c WHERE c.call_id = call $$;--> statement-breakpoint
DROP FUNCTION "tollgate"."add_credit"(uuid, uuid, bigint, text, text, integer, timestamptz, timestamptz, text, bigint);--> statement-breakpoint
-- Adds a credit, once by its id and its reference: `credited`, or the reason why not. An account without grants stays one if the
-- credit has neither a date nor another priority than usual. All refunds of a call are at most its charge; its charge and its refunds
-- in other shards, where it was before a move of its account, are given.
CREATE FUNCTION "tollgate"."add_credit"(new_id uuid, payer uuid, amount bigint, why text, new_kind text, new_priority integer,
	effective timestamptz, expires timestamptz, ref text, most bigint, refunded uuid, charge_elsewhere bigint, refunds_elsewhere bigint)
	RETURNS text LANGUAGE plpgsql AS $$ DECLARE
	account record;
	call record;
	later_nano numeric;
	is_later constant boolean := coalesce(effective > now(), false);
BEGIN
	SELECT a.moved_to, a.next_change_at IS NOT NULL OR new_priority <> 50 OR is_later OR expires IS NOT NULL AS has_grants INTO account
	FROM tollgate.accounts a WHERE a.id = payer FOR NO KEY UPDATE;
	IF NOT FOUND THEN RETURN 'no_account'; END IF;
	IF account.moved_to IS NOT NULL THEN RETURN 'account_moving'; END IF;
	IF EXISTS (SELECT FROM tollgate.credits c WHERE c.id = new_id OR c.source_ref = ref) THEN RETURN 'known'; END IF;
	IF expires <= now() THEN RETURN 'expired'; END IF;
	IF refunded IS NOT NULL THEN
		SELECT h.account_id, coalesce(c.charge_nano, e.charge_nano) AS charge_nano INTO call
		FROM (SELECT refunded AS id) r LEFT JOIN tollgate.holds h ON h.id = r.id LEFT JOIN tollgate.ends e ON e.id = r.id
			LEFT JOIN tollgate.corrections c ON c.id = r.id;
		IF coalesce(call.account_id, CASE WHEN charge_elsewhere IS NOT NULL THEN payer END) IS DISTINCT FROM payer THEN RETURN 'no_call'; END IF;
		IF coalesce(call.charge_nano, charge_elsewhere) IS NULL THEN RETURN 'call_open'; END IF;
		IF amount + refunds_elsewhere + tollgate.refunded_of(refunded) > coalesce(call.charge_nano, charge_elsewhere) THEN
			RETURN 'over_charge';
		END IF;
	END IF;
	IF account.has_grants THEN PERFORM tollgate.track_grants(payer); END IF;
	SELECT coalesce(sum(g.left_nano), 0) INTO later_nano FROM tollgate.grants g WHERE g.account_id = payer AND g.starts_at IS NOT NULL;
	IF (SELECT abs(a.balance_nano + later_nano + amount) > most FROM tollgate.accounts a WHERE a.id = payer) THEN
		RETURN 'out_of_range';
	END IF;
	INSERT INTO tollgate.credits (id, account_id, amount_nano, reason, kind, priority, effective_at, expires_at, source_ref, call_id)
	VALUES (new_id, payer, amount, why, new_kind, new_priority, effective, expires, ref, refunded) ON CONFLICT DO NOTHING;
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
-- Adds the balance that an account brought from another shard, once: its grants (an array of credits, each with its new id; null for
-- none), and the rest as a credit `rest_id`. A rest above 0 is a grant too if the account has some.
CREATE OR REPLACE FUNCTION "tollgate"."arrive_grants"(payer uuid, rest_id uuid, amount numeric, why text, brought json) RETURNS void LANGUAGE plpgsql AS $$ DECLARE
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
		INSERT INTO tollgate.credits (id, account_id, amount_nano, reason, kind, priority, effective_at, expires_at, moved_with)
		SELECT c.id, payer, c.amount_nano, why, c.kind, c.priority, c.later_at, c.expires_at, rest_id FROM come c
	), granted AS (
		INSERT INTO tollgate.grants (credit_id, account_id, priority, starts_at, expires_at, made_at, left_nano)
		SELECT c.id, payer, c.priority, c.later_at, c.expires_at, c.made_at, c.amount_nano FROM come c
	)
	SELECT amount - coalesce(sum(c.amount_nano) FILTER (WHERE c.starts_at IS NULL), 0),
		coalesce(sum(c.amount_nano) FILTER (WHERE c.later_at IS NULL), 0)
	INTO rest_nano, started_nano FROM come c;
	INSERT INTO tollgate.credits (id, account_id, amount_nano, reason, moved_with) VALUES (rest_id, payer, rest_nano, why, rest_id);
	IF has_grants AND rest_nano > 0 THEN
		INSERT INTO tollgate.grants (credit_id, account_id, priority, made_at, left_nano) VALUES (rest_id, payer, 50, now(), rest_nano);
	END IF;
	UPDATE tollgate.accounts a SET balance_nano = a.balance_nano + rest_nano + started_nano WHERE a.id = payer;
	PERFORM tollgate.change_grants(payer);
END $$;
