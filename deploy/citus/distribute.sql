-- Run once on the coordinator, after the first start of a gateway has made the tables. The triggers, which refuse to change
-- entries, are the only ones, and they work on each worker by themselves.
SELECT citus_set_coordinator_host('coordinator', 5432);
SELECT citus_add_node('worker', 5432);
SET citus.enable_unsafe_triggers = on;
SELECT citus_schema_distribute('tollgate')
