-- The open sessions of the console (D50). The table is empty at first.
CREATE TABLE "tollgate"."console_sessions" (
	"hash" text PRIMARY KEY NOT NULL,
	"expires_at" timestamp with time zone NOT NULL
);
