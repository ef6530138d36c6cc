-- Receivers of events (D96).
CREATE TABLE "tollgate"."sinks" (
	"id" uuid PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"url" text NOT NULL,
	"types" text[],
	"allow_private" boolean NOT NULL,
	"secret" text NOT NULL,
	"old_secret" text,
	"old_until" timestamp with time zone,
	"state" text DEFAULT 'active' NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"revision" integer DEFAULT 0 NOT NULL,
	"epoch" uuid NOT NULL,
	"is_restored" boolean NOT NULL,
	"xid" "xid8" NOT NULL,
	"event_id" uuid NOT NULL,
	"delivered_at" timestamp with time zone,
	"failures" integer DEFAULT 0 NOT NULL,
	"failing_since" timestamp with time zone,
	"retry_at" timestamp with time zone,
	"reason" text,
	"gateway_id" uuid,
	CONSTRAINT "sink_state_known" CHECK ("tollgate"."sinks"."state" IN ('active', 'paused', 'stopped'))
);
--> statement-breakpoint
CREATE UNIQUE INDEX "sink_by_name" ON "tollgate"."sinks" USING btree ("name");