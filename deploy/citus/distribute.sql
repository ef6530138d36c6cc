-- Puts the tables of the ledger on one worker. Run it on the coordinator, once a gateway has made them, while none runs. The
-- triggers refuse to change entries; they read nothing, so each worker can run them by itself.
SELECT set_config('citus.enable_unsafe_triggers', 'on', false), citus_schema_distribute('tollgate');
