/** Every metric with the names of its labels, and its help. Those of the process have the names that prom-client gives them. */
export const help = {
  process_cpu_user_seconds_total: "Total user CPU time spent in seconds.",
  process_cpu_system_seconds_total: "Total system CPU time spent in seconds.",
  process_cpu_seconds_total: "Total user and system CPU time spent in seconds.",
  process_start_time_seconds: "Start time of the process since unix epoch in seconds.",
  process_resident_memory_bytes: "Resident memory size in bytes.",
  process_virtual_memory_bytes: "Virtual memory size in bytes.",
  process_heap_bytes: "Process heap size in bytes.",
  process_open_fds: "Number of open file descriptors.",
  process_max_fds: "Maximum number of open file descriptors.",
  nodejs_eventloop_lag_seconds: "Lag of event loop in seconds.",
  nodejs_eventloop_lag_max_seconds: "The maximum recorded event loop delay.",
  nodejs_eventloop_lag_p50_seconds: "The 50th percentile of the recorded event loop delays.",
  nodejs_eventloop_lag_p90_seconds: "The 90th percentile of the recorded event loop delays.",
  nodejs_eventloop_lag_p99_seconds: "The 99th percentile of the recorded event loop delays.",
  nodejs_heap_size_total_bytes: "Process heap size from Node.js in bytes.",
  nodejs_heap_size_used_bytes: "Process heap size used from Node.js in bytes.",
  nodejs_external_memory_bytes: "Node.js external memory size in bytes.",
  "nodejs_version_info{version,major,minor,patch}": "Node.js version info.",
  tollgate_ready: "1 if this process accepts new calls (/readyz is 200), otherwise 0.",
  "tollgate_shard_writable{shard}":
    "1 if new calls of accounts in the shard can be held, otherwise 0. Only with several shards.",
  "tollgate_event_messages_total{sink,outcome}":
    "Events that this process sent to a sink, by sink and outcome: taken, refused, or skipped because it is refused for ever.",
  "tollgate_event_lag_seconds{sink}":
    "Age of the oldest event that was not delivered to the sink, 0 if there is none. Only in the process that delivers to it.",
  tollgate_trace_spans_exported_total: "Spans that the collector accepted.",
  "tollgate_trace_spans_dropped_total{reason}":
    "Spans that were dropped, by reason: queue_full, refused (by the collector) or unreachable.",
  "tollgate_requests_total{route,status}":
    "Requests, by route and status; requests to unknown paths have the route unknown.",
  "tollgate_errors_total{route,code}": "Requests that got an error, by route and error code of the gateway.",
  "tollgate_key_limit_refusals_total{limit}": "Requests refused because their key reached a limit, by limit.",
  "tollgate_budget_refusals_total{selector,unit,per}":
    "Calls refused by a budget, by selector, unit and period of the budget that the error names.",
  tollgate_price_changes_met_total:
    "Holds that were tried again, because a customer price had begun or ended since the process read it.",
  tollgate_idempotent_repeats_total:
    "Requests that repeated a call with its Idempotency-Key, including those that got the stored response.",
  "tollgate_upstream_attempt_seconds{upstream,outcome}":
    "Duration of upstream attempts, until the response headers or the failure, by upstream and outcome.",
  "tollgate_token_counts_total{model}": "Successful token counts, by model.",
  tollgate_keepalives_total: "Keepalive comments sent in idle streams.",
  "tollgate_added_latency_seconds{where}":
    "Latency that the gateway adds to a call, by where: before the request to the provider, or between the provider's response and the last byte.",
  "tollgate_upstream_breaker_open{upstream}":
    "1 if the circuit breaker of the upstream is open in this process, otherwise 0.",
  "tollgate_ledger_statement_seconds{kind}": "Duration of ledger statements, by kind.",
  "tollgate_ledger_queue_depth{kind}":
    "Items that wait in a batch queue of the ledger, by kind of statement.",
  "tollgate_ledger_batch_size{kind}": "Items per batched ledger statement, by kind.",
  tollgate_holds_expired_total: "Holds of crashed gateways that this process expired.",
  tollgate_spool_ends:
    "Call ends and attempts of this process that are in the spool and not yet in the database.",
  tollgate_ends_spooled_total:
    "Call ends that were written to the spool because the database was unavailable.",
  tollgate_ends_ignored_total: "Call ends that were ignored because the hold had already ended.",
  tollgate_labels_replaced_total:
    "Calls whose end user and tags were replaced, because their account had too many new ones on that day.",
  tollgate_grants_open: "Credit grants with money left. Every process has the number of the whole ledger.",
  "tollgate_grants_nano_usd{part}":
    "Amounts of credit grants, in nano-USD, by part: left (not spent), expired or voided. Every process has the sums of the whole ledger.",
  "tollgate_priced_accounts{origin}":
    "Accounts with customer prices that apply now, by origin: account or price_list. Every process has the numbers of the whole ledger.",
  tollgate_audit_violations:
    "Violations found by the last audit of this process; absent before the first audit.",
  tollgate_audit_timestamp_seconds:
    "Time of the last audit of this process, as a Unix timestamp; absent before the first audit.",
  "tollgate_reconciled_usd{provider,part}":
    "Amounts of the last comparison of this process with a provider's usage, in USD at the configured prices, by provider and part: theirs, ours, unexplained or elsewhere.",
  "tollgate_operator_changes_total{role,outcome}":
    "Changes by operators, by role and outcome: done, refused or unknown.",
  "tollgate_reconciliation_timestamp_seconds{provider}":
    "Time of the last comparison of this process with a provider's usage, as a Unix timestamp, by provider.",
  tollgate_open_holds: "Open calls of this process.",
  tollgate_held_nano_usd: "Amount held by the open calls of this process, in nano-USD.",
  "tollgate_calls_settled_total{model,operation,basis}":
    "Calls that were charged, by model, operation and basis of the charge.",
  "tollgate_calls_released_total{model,operation,failure}":
    "Calls that were released without a charge, by model, operation and failure.",
  "tollgate_calls_ended_total{stream,ending}":
    "Ended calls, by whether they streamed and how the provider's response ended (none: no response).",
  "tollgate_charged_nano_usd_total{model}": "Amount charged, in nano-USD, by model.",
  "tollgate_overage_nano_usd_total{model}": "Amount charged beyond the hold, in nano-USD, by model.",
  "tollgate_usage_notes_total{model,note}":
    "Calls with a note that their charge may not be what the provider bills, by model and note.",
  "tollgate_charges_below_cost_total{model}":
    "Calls that were charged less than the provider says that they cost, by model.",
  "tollgate_tokens_total{model,kind}":
    "Tokens charged, by model and kind: prompt (including cached), cached, completion.",
  "gen_ai_client_operation_duration_seconds{gen_ai_operation_name,gen_ai_provider_name,gen_ai_request_model,error_type}":
    "Duration of calls, from admission to settlement; error_type is the failure, if any.",
  "gen_ai_client_token_usage{gen_ai_operation_name,gen_ai_provider_name,gen_ai_request_model,gen_ai_token_type}":
    "Tokens charged per call, by type: input (including cached) and output.",
  "gen_ai_server_time_to_first_token_seconds{gen_ai_operation_name,gen_ai_provider_name,gen_ai_request_model}":
    "Time from admission to the first output, for streams with output.",
  "gen_ai_server_time_per_output_token_seconds{gen_ai_operation_name,gen_ai_provider_name,gen_ai_request_model}":
    "Time per output token after the first output, for streams that were charged by their usage.",
} as const

export type MetricSeries = keyof typeof help
