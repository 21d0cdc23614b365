-- Fewer bytes for the same promises: what repeats itself from one launch or decision to the next is written once, as a sample;
-- leases that are renewed together run out together; a launch has one row and no index that nothing needs.
--
-- This file is no expand step: a program that does not know samples cannot read the rows that follow, and one that does not
-- know terms would not see when a lease runs out. Rows that are there stay as they are and are read as before. It was written
-- before the first release, so no such program serves anybody.
UPDATE schema_compatibility SET oldest_program = 4;

-- Texts that later rows are packed after. A row names its sample; whoever writes rows notes twice a day that it still uses one.
CREATE TABLE samples (
    number   bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bytes    bytea       NOT NULL,
    used_at  timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE samples ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Request and claim order of a launch, packed. Older launches have theirs in launch_requests, which nobody adds to.
ALTER TABLE intents ADD COLUMN sample bigint, ADD COLUMN orders bytea;
ALTER TABLE intents ALTER COLUMN orders SET STORAGE EXTERNAL;

-- Attempts are found by scope and claim while they are alive, and by scope and the moment of their end afterwards: what is
-- added comes last of its scope, so that few pages of the index are written between two checkpoints. What the primary key
-- promised, writers see to, one at a time for each scope; that one attempt is alive, intents_alive goes on promising.
ALTER TABLE intents DROP CONSTRAINT intents_pkey;
DROP INDEX intents_closed;
CREATE INDEX intents_over ON intents (scope, closed_at) WHERE closed_at IS NOT NULL;

-- Everything of a decision that no statement asks for by itself, with the event that it adds to its segment, packed.
ALTER TABLE decisions ADD COLUMN sample bigint, ADD COLUMN body bytea;
ALTER TABLE decisions ALTER COLUMN summary DROP NOT NULL;
ALTER TABLE decisions ALTER COLUMN report DROP NOT NULL;
ALTER TABLE decisions ALTER COLUMN body SET STORAGE EXTERNAL;

-- When leases run out that were renewed together: one row is written instead of all of theirs. A lease that belongs to a
-- term says that it never runs out by itself, to whoever does not look at terms.
CREATE TABLE lease_terms (
    number      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    expires_at  timestamptz NOT NULL
) WITH (fillfactor = 50);
ALTER TABLE leases ADD COLUMN term bigint;
ALTER TABLE leases ADD CHECK (term IS NULL OR expires_at = 'infinity');

-- Leases with the moment at which each runs out.
CREATE VIEW lease_ends AS
    SELECT scope, owner, epoch, wanted_by, coalesce(lease_terms.expires_at, leases.expires_at) AS expires_at
    FROM leases LEFT JOIN lease_terms ON lease_terms.number = leases.term;

-- One writer of a scope at a time, until the end of the transaction. A lock of the lease's row would do as much, and each
-- would be written to the write-ahead log.
CREATE FUNCTION lock_scope(of_scope text) RETURNS void LANGUAGE sql VOLATILE
    AS $$ SELECT pg_advisory_xact_lock(hashtextextended('fleetwright scope ' || of_scope, 0)) $$;

-- Whether the lease is held; if so, it does not pass on before the end of the transaction. Each statement here sees what was
-- committed before it began, so the lease is read as it is once the lock is had.
CREATE FUNCTION hold_lease(of_scope text, by_owner text, at_epoch bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM lock_scope(of_scope);
    RETURN EXISTS (SELECT FROM leases WHERE scope = of_scope AND owner = by_owner AND epoch = at_epoch);
END $$;

-- Whether `by_owner` may take the lease; if so, nobody prolongs or takes it before the end of the transaction. Whoever prolongs
-- a term locks it first and looks at its leases then.
CREATE FUNCTION may_take_lease(of_scope text, by_owner text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    lease  leases;
    ends   timestamptz;
BEGIN
    PERFORM lock_scope(of_scope);
    SELECT * INTO lease FROM leases WHERE scope = of_scope FOR UPDATE;
    IF NOT FOUND OR lease.owner = by_owner THEN
        RETURN true;
    END IF;
    ends := lease.expires_at;
    IF lease.term IS NOT NULL THEN
        SELECT expires_at INTO STRICT ends FROM lease_terms WHERE number = lease.term FOR UPDATE;
    END IF;
    RETURN ends <= clock_timestamp();
END $$;
