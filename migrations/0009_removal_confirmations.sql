-- People's word for removals that wait. An expand step: programs that do not know of it go on working.

-- How often people have confirmed the removals that wait in a cluster; replicas hear of it by the signal `releases`. Only the last one
-- counts.
CREATE TABLE removal_confirmations (
    scope         text        PRIMARY KEY,
    number        bigint      NOT NULL,
    confirmed_at  timestamptz NOT NULL
);
