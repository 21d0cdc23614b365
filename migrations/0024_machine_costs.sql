-- What machines have cost, from which every report of spend is summed. An expand step: a program without it writes no costs,
-- and what machines cost while it owns their cluster is charged by the next program that does.

CREATE TABLE machine_costs (
    -- That of the cluster.
    scope          text        NOT NULL,
    claim          text        NOT NULL,
    -- By the clock of the replica that owned the cluster. Intervals of a machine follow each other, and end with the hour (UTC).
    starts_at      timestamptz NOT NULL,
    -- Since when the machine costs this price.
    launched_at    timestamptz NOT NULL,
    pool           text        NOT NULL,
    provider_id    text        NOT NULL,
    instance_type  text        NOT NULL,
    zone           text        NOT NULL,
    capacity_type  text        NOT NULL,
    -- Micro-dollars per hour.
    price          bigint      NOT NULL,
    -- Number of the decision that launched it.
    launched_by    bigint,
    -- Whether it is the sum of a day.
    is_day         boolean     NOT NULL DEFAULT false,
    -- What changes until the interval ends is last: an update logs what follows the first change.
    ends_at        timestamptz NOT NULL,
    -- Number of the decision that removes it to save its price, and when that was made.
    removed_by     bigint,
    removed_at     timestamptz,
    -- Whether it ran on at the end.
    is_running     boolean     NOT NULL,
    -- What it was spent on, in micro-dollars.
    useful         bigint      NOT NULL,
    booting        bigint      NOT NULL,
    draining       bigint      NOT NULL,
    hold           bigint      NOT NULL,
    daemonsets     bigint      NOT NULL,
    fragmentation  bigint      NOT NULL,
    blocked        bigint      NOT NULL,
    no_savings     bigint      NOT NULL,
    unexplained    bigint      NOT NULL,
    PRIMARY KEY (scope, starts_at, claim)
) WITH (fillfactor = 70);

-- For reports of all clusters: rows are written in the order of their time.
CREATE INDEX machine_costs_by_time ON machine_costs USING brin (starts_at) WITH (pages_per_range = 32);
