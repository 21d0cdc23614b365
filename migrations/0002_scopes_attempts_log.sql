-- What many replicas need to share one fleet: leases of two kinds, launches by attempt, instructions, disruptions, the log
-- that decisions are replayed from, offering memory, freezes, audit.
--
-- This file is no expand step: it renames what the first file made, and a program that knows the first file alone fails at
-- its first statement. Both were written before the first release, so no such program serves anybody.

-- The oldest program that works on this schema, as the number of the newest migration that it was built with. A migration
-- that contracts raises it; a program below it refuses to start.
CREATE TABLE schema_compatibility (
    only_row        boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    oldest_program  bigint  NOT NULL
);
INSERT INTO schema_compatibility (oldest_program) VALUES (2);

-- Moments travel as milliseconds since 1970 and are kept as what people can read.
CREATE FUNCTION moment(milliseconds bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT timestamptz 'epoch' + milliseconds * interval '1 millisecond' $$;
CREATE FUNCTION milliseconds(moment timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT floor(extract(epoch FROM moment) * 1000)::bigint $$;

-- A lease is of a cluster (`cluster/<name>`) or of an account's region (`region/<account>/<region>`). Rows are renewed in
-- place every few seconds: the free half of each page keeps a renewal on its page and out of the index.
ALTER TABLE leases RENAME COLUMN cluster TO scope;
ALTER TABLE leases SET (fillfactor = 50);
ALTER TABLE leases ADD COLUMN wanted_by text;
UPDATE leases SET scope = 'cluster/' || scope;

-- Grows with every change that replicas are told of. Listeners hear it at once; whoever misses that reads the number.
CREATE TABLE signals (
    name     text   PRIMARY KEY,
    version  bigint NOT NULL
);
INSERT INTO signals (name, version) VALUES ('freezes', 0), ('leases', 0);

-- A launch, by attempt, written before the cloud is called. Rows are updated twice in their life, and an update writes the
-- whole row: what never changes, and is far longer, has a table of its own.
CREATE TEMPORARY TABLE first_intents ON COMMIT DROP AS SELECT * FROM intents;
DROP TABLE intents;
CREATE TABLE intents (
    scope        text        NOT NULL,
    claim        text        NOT NULL,
    attempt      integer     NOT NULL CHECK (attempt > 0),
    token        text        NOT NULL,
    state        text        NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'launched', 'failed')),
    provider_id  text        CHECK ((provider_id IS NOT NULL) = (state = 'launched')),
    why          text        CHECK ((why IS NOT NULL) = (state = 'failed')),
    created_at   timestamptz NOT NULL DEFAULT now(),
    settled_at   timestamptz CHECK ((settled_at IS NULL) = (state = 'open')),
    closed_at    timestamptz,
    PRIMARY KEY (scope, claim, attempt)
) WITH (fillfactor = 80);
CREATE TABLE launch_requests (
    scope        text        NOT NULL,
    claim        text        NOT NULL,
    attempt      integer     NOT NULL,
    request      bytea       NOT NULL,
    claim_order  text        NOT NULL,
    PRIMARY KEY (scope, claim, attempt)
);
-- One attempt of a claim is alive at a time; also what comes back with the lease.
CREATE UNIQUE INDEX intents_alive ON intents (scope, claim) WHERE closed_at IS NULL;
CREATE INDEX intents_closed ON intents (closed_at) WHERE closed_at IS NOT NULL;
INSERT INTO launch_requests (scope, claim, attempt, request, claim_order)
SELECT 'cluster/' || cluster, claim, 1, convert_to(request, 'UTF8'), '' FROM first_intents;
INSERT INTO intents (scope, claim, attempt, token, state, provider_id, why, created_at, settled_at)
SELECT 'cluster/' || cluster, claim, 1, token,
       CASE WHEN outcome IS NULL THEN 'open' WHEN outcome LIKE 'launched %' THEN 'launched' ELSE 'failed' END,
       CASE WHEN outcome LIKE 'launched %' THEN substr(outcome, 10) END,
       CASE WHEN outcome NOT LIKE 'launched %' THEN outcome END,
       created_at, settled_at
FROM first_intents;

-- What an agent was told to do, until it says how that ended.
CREATE TABLE instructions (
    scope        text        NOT NULL,
    id           bigint      NOT NULL,
    generation   bigint      NOT NULL,
    kind         text        NOT NULL,
    payload      bytea       NOT NULL,
    deadline_at  timestamptz NOT NULL,
    outcome      text,
    ended_at     timestamptz CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    PRIMARY KEY (scope, id)
);
CREATE INDEX instructions_alive ON instructions (scope) WHERE ended_at IS NULL;
CREATE INDEX instructions_ended ON instructions (ended_at) WHERE ended_at IS NOT NULL;

-- Machines that are on their way out, and what replaces them.
CREATE TABLE disruptions (
    scope         text        NOT NULL,
    id            bigint      NOT NULL,
    kind          text        NOT NULL,
    claims        text[]      NOT NULL,
    replacements  text[]      NOT NULL,
    detail        text        NOT NULL,
    begun_at      timestamptz NOT NULL,
    outcome       text,
    ended_at      timestamptz CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    PRIMARY KEY (scope, id)
);
CREATE INDEX disruptions_alive ON disruptions (scope) WHERE ended_at IS NULL;
CREATE INDEX disruptions_ended ON disruptions (ended_at) WHERE ended_at IS NOT NULL;

-- What was decided and why, by day of the decision. What a replay needs beside the log is in the row; decisions that
-- change nothing are counted below and have no row.
CREATE TEMPORARY TABLE first_decisions ON COMMIT DROP AS SELECT * FROM decisions;
DROP TABLE decisions;
CREATE TABLE decisions (
    scope           text        NOT NULL,
    number          bigint      NOT NULL,
    decided_at      timestamptz NOT NULL,
    epoch           bigint      NOT NULL,
    kind            text        NOT NULL,
    summary         text        NOT NULL,
    report          text        NOT NULL,
    segment         bigint,
    sequence        bigint,
    stance          bytea,
    plan            bytea,
    policy          bytea,
    catalogues      bytea[],
    engine_version  text,
    input_digest    bytea,
    plan_digest     bytea,
    PRIMARY KEY (scope, number, decided_at)
) PARTITION BY RANGE (decided_at);
CREATE INDEX decisions_by_number ON decisions (number);
CREATE TABLE decisions_other PARTITION OF decisions DEFAULT;
INSERT INTO decisions (scope, number, decided_at, epoch, kind, summary, report)
SELECT 'cluster/' || cluster, id, decided_at, epoch, 'unknown', summary, report FROM first_decisions;

CREATE TABLE quiet_decisions (
    scope  text   NOT NULL,
    epoch  bigint NOT NULL,
    total  bigint NOT NULL,
    PRIMARY KEY (scope, epoch)
) WITH (fillfactor = 50);

-- The log of a cluster: segments that begin with a snapshot, in chunks of packed events.
CREATE TABLE log_segments (
    scope       text        NOT NULL,
    segment     bigint      NOT NULL,
    epoch       bigint      NOT NULL,
    started_at  timestamptz NOT NULL,
    PRIMARY KEY (scope, segment)
);
CREATE TABLE log_chunks (
    scope           text        NOT NULL,
    segment         bigint      NOT NULL,
    first_sequence  bigint      NOT NULL,
    last_sequence   bigint      NOT NULL CHECK (last_sequence >= first_sequence),
    written_at      timestamptz NOT NULL,
    bytes           bytea       NOT NULL,
    PRIMARY KEY (scope, segment, first_sequence, written_at)
) PARTITION BY RANGE (written_at);
-- Chunks arrive packed: packing them again costs time and gains nothing.
ALTER TABLE log_chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE TABLE log_chunks_other PARTITION OF log_chunks DEFAULT;

-- Catalogues, policies and pools, once each, by the hash of their bytes.
CREATE TABLE blobs (
    hash     bytea       PRIMARY KEY,
    kind     text        NOT NULL,
    bytes    bytea       NOT NULL,
    used_at  timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE blobs ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Partitions of the log from `first` on, one a day by UTC. A day whose rows are in the partition for all other days
-- already stays there.
CREATE FUNCTION make_log_partitions(first date, days integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent    text;
    day       date;
    partition text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('fleetwright log partitions'));
    FOREACH parent IN ARRAY ARRAY['decisions', 'log_chunks'] LOOP
        FOR n IN 0 .. days - 1 LOOP
            day := first + n;
            partition := parent || '_' || to_char(day, 'YYYYMMDD');
            CONTINUE WHEN to_regclass(partition) IS NOT NULL;
            BEGIN
                EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', partition, parent);
                EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, partition,
                    day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
            EXCEPTION WHEN check_violation THEN
                NULL;
            END;
        END LOOP;
    END LOOP;
END $$;

-- Drops the partitions of `parent` for the days before `first_kept`; answers how many.
CREATE FUNCTION drop_log_partitions(parent text, first_kept date) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    partition text;
    dropped   integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('fleetwright log partitions'));
    FOR partition IN
        SELECT relid::text FROM pg_partition_tree(parent::regclass)
        WHERE isleaf AND relid::text ~ ('^' || parent || '_[0-9]{8}$')
          AND relid::text < parent || '_' || to_char(first_kept, 'YYYYMMDD')
    LOOP
        EXECUTE format('DROP TABLE %I', partition);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;

-- Offerings that the cloud has refused, for every cluster that buys in the same place.
CREATE TABLE offering_memory (
    region         text        NOT NULL,
    instance_type  text        NOT NULL,
    zone           text        NOT NULL,
    capacity_type  text        NOT NULL,
    until_at       timestamptz NOT NULL,
    reason         text        NOT NULL,
    PRIMARY KEY (region, instance_type, zone, capacity_type)
);

-- What is frozen: nothing voluntary happens there.
CREATE TABLE freezes (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    nonce      text        NOT NULL UNIQUE,
    cluster    text,
    pool       text        CHECK (pool IS NULL OR cluster IS NOT NULL),
    frozen_by  text        NOT NULL,
    reason     text        NOT NULL,
    since_at   timestamptz NOT NULL DEFAULT now(),
    until_at   timestamptz,
    thawed_by  text,
    thawed_at  timestamptz CHECK ((thawed_at IS NULL) = (thawed_by IS NULL))
);
CREATE INDEX freezes_alive ON freezes (id) WHERE thawed_at IS NULL;

-- Who changed what by hand.
CREATE TABLE audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    nonce   text        NOT NULL UNIQUE,
    at      timestamptz NOT NULL,
    who     text        NOT NULL,
    what    text        NOT NULL,
    scope   text        NOT NULL,
    detail  text        NOT NULL
);
