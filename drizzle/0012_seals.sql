-- The seals of months that are over (D71). They begin empty: a background task seals each month a week after its end.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."seal_hours" (
	"month" date NOT NULL,
	"from_id" uuid NOT NULL,
	"entries" bigint NOT NULL,
	"hash" text NOT NULL,
	CONSTRAINT "seal_hours_month_from_id_pk" PRIMARY KEY("month","from_id")
);
--> statement-breakpoint
CREATE TABLE "tollgate"."seal_sums" (
	"month" date NOT NULL,
	"account_id" uuid NOT NULL,
	"key_id" uuid NOT NULL,
	"terms_id" integer NOT NULL,
	"calls" bigint NOT NULL,
	"charge_nano" bigint NOT NULL,
	"prompt_tokens" bigint NOT NULL,
	"cached_tokens" bigint NOT NULL,
	"completion_tokens" bigint NOT NULL,
	CONSTRAINT "seal_sums_month_account_id_key_id_terms_id_pk" PRIMARY KEY("month","account_id","key_id","terms_id")
);
--> statement-breakpoint
CREATE TABLE "tollgate"."seals" (
	"month" date PRIMARY KEY NOT NULL,
	"sealed_at" timestamp with time zone DEFAULT now() NOT NULL,
	"entries" bigint NOT NULL,
	"calls" bigint NOT NULL,
	"charge_nano" bigint NOT NULL,
	"hash" text NOT NULL
);--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."seals" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."seal_hours" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."seal_sums" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
CREATE FUNCTION "tollgate"."refuse_entry"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	RAISE EXCEPTION 'the month of %.% is sealed', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
