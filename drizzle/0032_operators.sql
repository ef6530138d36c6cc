-- Operators (D101) and the log of their changes (D102). The new columns have constant defaults, so no table is rewritten.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."operator_change_ends" (
	"id" uuid PRIMARY KEY NOT NULL,
	"ended_at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	"status" integer,
	"made_id" uuid,
	"after" json,
	"xid" "xid8" DEFAULT pg_current_xact_id()
);
--> statement-breakpoint
CREATE TABLE "tollgate"."operator_changes" (
	"id" uuid PRIMARY KEY NOT NULL,
	"at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	"actor" text NOT NULL,
	"operator_id" uuid,
	"role" text NOT NULL,
	"address" text,
	"forwarded_for" text,
	"method" text NOT NULL,
	"route" text NOT NULL,
	"resource_id" uuid,
	"reason" text,
	"request" json,
	"before" json
);
--> statement-breakpoint
CREATE TABLE "tollgate"."operators" (
	"id" uuid PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"role" text NOT NULL,
	"token_hash" text NOT NULL,
	"expires_at" timestamp with time zone,
	"last_used_at" timestamp with time zone,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"revoked_at" timestamp with time zone,
	CONSTRAINT "operator_role_known" CHECK ("tollgate"."operators"."role" IN ('read', 'support', 'billing', 'admin'))
);
--> statement-breakpoint
ALTER TABLE "tollgate"."console_sessions" ADD COLUMN "actor" text DEFAULT 'configured' NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."console_sessions" ADD COLUMN "role" text DEFAULT 'admin' NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."console_sessions" ADD COLUMN "operator_id" uuid;--> statement-breakpoint
CREATE INDEX "operator_change_ends_by_xid" ON "tollgate"."operator_change_ends" USING btree ("xid") WHERE "tollgate"."operator_change_ends"."xid" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "operator_change_ends_of_resource" ON "tollgate"."operator_change_ends" USING btree ("made_id","id");--> statement-breakpoint
CREATE INDEX "operator_changes_of_actor" ON "tollgate"."operator_changes" USING btree ("actor","id");--> statement-breakpoint
CREATE INDEX "operator_changes_of_resource" ON "tollgate"."operator_changes" USING btree ("resource_id","id");--> statement-breakpoint
CREATE UNIQUE INDEX "operator_by_token" ON "tollgate"."operators" USING btree ("token_hash");--> statement-breakpoint
CREATE UNIQUE INDEX "operator_by_name" ON "tollgate"."operators" USING btree ("name") WHERE "tollgate"."operators"."revoked_at" IS NULL;--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."operator_changes" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."operator_change_ends" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();
