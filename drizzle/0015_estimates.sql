-- What calls with final usage say about estimates (D92). The table is empty at first.
CREATE TABLE "tollgate"."estimates" (
	"day" date NOT NULL,
	"model" text NOT NULL,
	"operation" text NOT NULL,
	"calls" bigint NOT NULL,
	"prompt_bytes" bigint NOT NULL,
	"prompt_tokens" bigint NOT NULL,
	"output_bytes" bigint NOT NULL,
	"output_tokens" bigint NOT NULL,
	"reasoning_tokens" bigint NOT NULL,
	"reasoning_calls" bigint NOT NULL,
	"bytes_per_token" double precision NOT NULL,
	"hidden_output" integer NOT NULL,
	CONSTRAINT "estimates_pkey" PRIMARY KEY("day","model","operation")
);
