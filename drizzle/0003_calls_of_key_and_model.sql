-- What calls are listed by and never changes. On a full table: some seconds a million calls, in which no other gateway can hold or settle.
CREATE INDEX "calls_of_key" ON "tollgate"."reservations" USING btree ("key_id","id");--> statement-breakpoint
CREATE INDEX "calls_of_model" ON "tollgate"."reservations" USING btree ("model","id");
