-- The table of guardrail counters and its column of time buckets get the names that the program uses.
-- Two tables that no program has filled are dropped.
--
-- This file is no expand step: an older program reads `instructions` and `disruptions` with every
-- lease, and writes counters to `rail_shares`. The file was written before the first release, so no
-- released program depends on these names.
UPDATE schema_compatibility SET oldest_program = 11;

DROP TABLE instructions;
DROP TABLE disruptions;

ALTER TABLE rail_shares RENAME TO guardrail_counters;
ALTER TABLE guardrail_counters RENAME COLUMN part TO bucket;
ALTER INDEX rail_shares_pkey RENAME TO guardrail_counters_pkey;
ALTER INDEX rail_shares_at RENAME TO guardrail_counters_at;
