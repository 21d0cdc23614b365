-- The cluster that has a UID is read with every acquisition of a lease, so that one cluster has one name.
-- An expand step: programs that do not know of the index go on working.
CREATE INDEX leases_cluster_uid ON leases (cluster_uid) WHERE cluster_uid IS NOT NULL;
