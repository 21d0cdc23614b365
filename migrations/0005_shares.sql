-- What each process saw come and go, for the rails of all others: a fleet that many replicas decide for has one brake and one
-- blast radius. An expand step: programs that do not know of it go on working, and count for themselves alone.

-- What one process saw in one part of time: all of it, so that writing it twice changes nothing. A process writes the part that
-- is running every few seconds, in place while its page has room, and the others read what is younger than their windows.
CREATE TABLE rail_shares (
    process        text        NOT NULL,
    part           bigint      NOT NULL,
    at             timestamptz NOT NULL,
    machines       bigint      NOT NULL,
    joined         bigint      NOT NULL,
    failed         bigint      NOT NULL,
    launched       bigint      NOT NULL,
    launched_cost  bigint      NOT NULL,
    removed        bigint      NOT NULL,
    removed_cost   bigint      NOT NULL,
    PRIMARY KEY (process, part)
) WITH (fillfactor = 70);
CREATE INDEX rail_shares_at ON rail_shares (at);
