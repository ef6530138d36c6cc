-- A row that is updated in its own page costs no index entry and less WAL: an account is updated by every batch, a reservation once or twice.
ALTER TABLE "tollgate"."accounts" SET (fillfactor = 20);--> statement-breakpoint
ALTER TABLE "tollgate"."reservations" SET (fillfactor = 50);
