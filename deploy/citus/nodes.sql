-- Run once on the coordinator, with the extension created on every node.
SELECT citus_set_coordinator_host('coordinator', 5432);
SELECT citus_add_node('worker', 5432);
