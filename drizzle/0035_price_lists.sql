-- Price lists (D110). The new columns are null, so no table is rewritten.
SET LOCAL lock_timeout = '5s';--> statement-breakpoint
CREATE TABLE "tollgate"."price_lists" (
	"id" uuid PRIMARY KEY NOT NULL,
	"list_id" uuid NOT NULL,
	"version" integer NOT NULL,
	"name" text NOT NULL,
	"prices" jsonb NOT NULL,
	"actor" text NOT NULL,
	"reason" text,
	"made_at" timestamp with time zone NOT NULL,
	CONSTRAINT "price_list_begins" CHECK (("tollgate"."price_lists"."version" = 1) = ("tollgate"."price_lists"."id" = "tollgate"."price_lists"."list_id"))
);
--> statement-breakpoint
CREATE TRIGGER "entries_stay" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tollgate"."price_lists" FOR EACH STATEMENT EXECUTE FUNCTION "tollgate"."refuse_change"();--> statement-breakpoint
ALTER TABLE "tollgate"."customer_prices" ADD COLUMN "price_list_id" uuid;--> statement-breakpoint
ALTER TABLE "tollgate"."customer_prices" ADD COLUMN "assignment_id" uuid;--> statement-breakpoint
CREATE UNIQUE INDEX "price_list_versions" ON "tollgate"."price_lists" USING btree ("list_id","version");--> statement-breakpoint
CREATE UNIQUE INDEX "price_list_names" ON "tollgate"."price_lists" USING btree ("name") WHERE "tollgate"."price_lists"."version" = 1;--> statement-breakpoint
CREATE INDEX "customer_prices_of_list" ON "tollgate"."customer_prices" USING btree ("price_list_id","assignment_id") WHERE "tollgate"."customer_prices"."price_list_id" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "customer_prices_of_assignment" ON "tollgate"."customer_prices" USING btree ("assignment_id") WHERE "tollgate"."customer_prices"."assignment_id" IS NOT NULL;--> statement-breakpoint
ALTER TABLE "tollgate"."customer_prices" ADD CONSTRAINT "customer_price_of_list" CHECK (("price_list_id" IS NULL) = ("assignment_id" IS NULL) AND ("ended_id" IS NULL OR "assignment_id" IS NULL));
