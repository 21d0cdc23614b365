-- What is known of a cluster beside who decides for it: which cluster has the name, and how much there was in it. Both are what
-- the first words of an agent after a restart are compared with. An expand step: programs that do not know of it go on working.

-- UID of the cluster that has the name: the first one that was decided for under it, or the one that a person accepted.
ALTER TABLE leases ADD COLUMN cluster_uid text;

-- How much a cluster was last seen to have, written when it has changed much, in place.
CREATE TABLE observed_extents (
    scope        text        PRIMARY KEY REFERENCES leases ON DELETE CASCADE,
    nodes        bigint      NOT NULL,
    claims       bigint      NOT NULL,
    pools        bigint      NOT NULL,
    pods         bigint      NOT NULL,
    observed_at  timestamptz NOT NULL
) WITH (fillfactor = 50);
