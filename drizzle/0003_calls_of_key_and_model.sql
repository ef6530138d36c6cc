-- What calls are listed by and never changes. On a full table: some seconds a million calls, in which no other gateway can hold or settle.
CREATE INDEX "calls_of_key" ON "tollgate"."reservations" USING btree ("key_id","id");--> statement-breakpoint
CREATE INDEX "calls_of_model" ON "tollgate"."reservations" USING btree ("model","id");--> statement-breakpoint
-- A closed call is larger than an open one: of pages filled by half, one call in nine had no room to be closed in its own.
ALTER TABLE "tollgate"."reservations" SET (fillfactor = 40);
