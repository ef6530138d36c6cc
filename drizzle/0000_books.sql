CREATE SCHEMA IF NOT EXISTS "tollgate";
--> statement-breakpoint
CREATE TABLE "tollgate"."accounts" (
	"id" uuid PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"balance_nano" bigint DEFAULT 0 NOT NULL,
	"held_nano" bigint DEFAULT 0 NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "held_not_negative" CHECK ("tollgate"."accounts"."held_nano" >= 0)
);
--> statement-breakpoint
CREATE TABLE "tollgate"."credits" (
	"id" uuid PRIMARY KEY NOT NULL,
	"account_id" uuid NOT NULL,
	"amount_nano" bigint NOT NULL,
	"reason" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tollgate"."gateways" (
	"id" uuid PRIMARY KEY NOT NULL,
	"floor_id" uuid NOT NULL,
	"lease_until" timestamp with time zone NOT NULL,
	"dead_at" timestamp with time zone,
	"swept_at" timestamp with time zone,
	"started_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tollgate"."keys" (
	"id" uuid PRIMARY KEY NOT NULL,
	"account_id" uuid NOT NULL,
	"name" text,
	"hash" text NOT NULL,
	"prefix" text NOT NULL,
	"models" text[],
	"expires_at" timestamp with time zone,
	"revoked_at" timestamp with time zone,
	"last_used_at" timestamp with time zone,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "tollgate"."reservations" (
	"id" uuid PRIMARY KEY NOT NULL,
	"account_id" uuid NOT NULL,
	"key_id" uuid NOT NULL,
	"gateway_id" uuid NOT NULL,
	"amount_nano" bigint NOT NULL,
	"checkpoint_nano" bigint DEFAULT 0 NOT NULL,
	"charge_nano" bigint,
	"input_pico" bigint NOT NULL,
	"cached_input_pico" bigint NOT NULL,
	"output_pico" bigint NOT NULL,
	"started_at" timestamp with time zone DEFAULT now() NOT NULL,
	"closed_at" timestamp with time zone,
	"prompt_tokens" integer,
	"cached_tokens" integer,
	"completion_tokens" integer,
	"ttft_ms" integer,
	"duration_ms" integer,
	"stream" boolean NOT NULL,
	"state" text DEFAULT 'open' NOT NULL,
	"model" text NOT NULL,
	"family" text NOT NULL,
	"upstream" text NOT NULL,
	"basis" text,
	"ending" text,
	"failure" text,
	"notes" text[] DEFAULT '{}' NOT NULL,
	CONSTRAINT "amount_not_negative" CHECK ("tollgate"."reservations"."amount_nano" >= 0),
	CONSTRAINT "checkpoint_not_negative" CHECK ("tollgate"."reservations"."checkpoint_nano" >= 0),
	CONSTRAINT "charge_not_negative" CHECK ("tollgate"."reservations"."charge_nano" >= 0),
	CONSTRAINT "state_known" CHECK ("tollgate"."reservations"."state" IN ('open', 'settled', 'released', 'expired')),
	CONSTRAINT "basis_known" CHECK ("tollgate"."reservations"."basis" IN ('usage', 'partial', 'estimate', 'none')),
	CONSTRAINT "ending_known" CHECK ("tollgate"."reservations"."ending" IN ('completed', 'upstream_lost', 'upstream_silent', 'deadline', 'client_left', 'client_stalled', 'gateway_stopped', 'gateway_lost')),
	CONSTRAINT "open_until_closed" CHECK (("tollgate"."reservations"."state" = 'open') = ("tollgate"."reservations"."closed_at" IS NULL)),
	CONSTRAINT "charged_when_closed" CHECK (("tollgate"."reservations"."state" = 'open') = ("tollgate"."reservations"."charge_nano" IS NULL)),
	CONSTRAINT "released_is_free" CHECK ("tollgate"."reservations"."state" <> 'released' OR "tollgate"."reservations"."charge_nano" = 0)
);
--> statement-breakpoint
CREATE INDEX "credits_of_account" ON "tollgate"."credits" USING btree ("account_id","created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "key_by_hash" ON "tollgate"."keys" USING btree ("hash");--> statement-breakpoint
CREATE INDEX "keys_of_account" ON "tollgate"."keys" USING btree ("account_id","id");--> statement-breakpoint
CREATE INDEX "calls_of_account" ON "tollgate"."reservations" USING btree ("account_id","id");