-- How replicas reach each other, and the latest summary of each cluster, so that any replica shows the whole fleet.
-- An expand step: a program without these has no address, and writes no summaries.

-- Where other replicas reach this one; empty when it told none.
ALTER TABLE replicas ADD COLUMN address text NOT NULL DEFAULT '';
-- What other replicas authenticate by. It is valid for one life of the server.
ALTER TABLE replicas ADD COLUMN token text NOT NULL DEFAULT '';
-- SHA-256 digest of the certificate that the server presents; empty without TLS.
ALTER TABLE replicas ADD COLUMN certificate bytea NOT NULL DEFAULT '';

CREATE TABLE cluster_summaries (
    cluster      text    PRIMARY KEY,
    -- That of the lease under which the summary was made. One of a lower epoch never replaces it.
    epoch        bigint  NOT NULL,
    -- Owner of that lease.
    replica      text    NOT NULL,
    -- When it was made, in milliseconds since 1970.
    observed_ms  bigint  NOT NULL,
    -- Message `fleetwright.v1.Cluster`.
    summary      bytea   NOT NULL
) WITH (fillfactor = 50);
