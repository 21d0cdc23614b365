-- How many pods waited for a Node when a cluster was last seen: they hide no loss of those that had one. An expand step: programs
-- that do not know of it go on working.

ALTER TABLE observed_extents ADD COLUMN pending bigint NOT NULL DEFAULT 0;
