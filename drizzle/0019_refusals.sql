-- How many calls were refused (D80). The table is empty at first.
CREATE TABLE "tollgate"."refusals" (
	"hour" timestamp with time zone NOT NULL,
	"account_id" uuid NOT NULL,
	"key_id" uuid NOT NULL,
	"code" text NOT NULL,
	"requests" bigint NOT NULL,
	"last_at" timestamp with time zone NOT NULL,
	CONSTRAINT "refusals_pkey" PRIMARY KEY("hour","account_id","key_id","code")
);
