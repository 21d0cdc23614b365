-- What one replica learns of a cloud for all: the machines that it lists, and a signal for the offerings that it refuses.
-- An expand step: programs that do not know of it go on working. A table goes that no program has used.

-- When the cloud of an account's region (`region/<account>/<region>`) was last asked for its machines by whoever holds that
-- lease. The number grows with every listing.
CREATE TABLE listings (
    scope     text        PRIMARY KEY,
    number    bigint      NOT NULL,
    asked_at  timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The machines that it showed, of clusters that somebody else decides for: whoever lists knows its own at first hand.
CREATE TABLE listed_machines (
    scope        text    NOT NULL,
    cluster      text    NOT NULL,
    provider_id  text    NOT NULL,
    cluster_uid  text    NOT NULL,
    claim        text    NOT NULL,
    ends         boolean NOT NULL,
    PRIMARY KEY (scope, cluster, provider_id)
);

-- People's word for a cluster whose agent is not believed; only the last one counts.
CREATE TABLE quarantine_releases (
    scope        text        PRIMARY KEY,
    number       bigint      NOT NULL,
    released_at  timestamptz NOT NULL
);

-- Nothing has ever written it.
DROP TABLE quiet_decisions;

INSERT INTO signals (name, version) VALUES ('offerings', 0), ('releases', 0);
