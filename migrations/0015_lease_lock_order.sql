-- Takers of a lease lock its term before the lease, as renewals do: a renewal that moved the lease to another term could
-- deadlock with one that locked the lease first. An expand step: the function answers as before.

-- Whether `by_owner` may take the lease; if so, nobody prolongs or takes it before the end of the transaction. Whoever prolongs
-- a term locks it first and looks at its leases then.
CREATE OR REPLACE FUNCTION may_take_lease(of_scope text, by_owner text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    lease  leases;
    known  bigint;
    ends   timestamptz;
BEGIN
    PERFORM lock_scope(of_scope);
    SELECT term INTO known FROM leases WHERE scope = of_scope;
    PERFORM FROM lease_terms WHERE number = known FOR UPDATE;
    SELECT * INTO lease FROM leases WHERE scope = of_scope FOR UPDATE;
    IF NOT FOUND OR lease.owner = by_owner THEN
        RETURN true;
    END IF;
    IF lease.term IS NULL THEN
        RETURN lease.expires_at <= clock_timestamp();
    END IF;
    IF lease.term IS DISTINCT FROM known THEN
        -- Its holder has just renewed it.
        RETURN false;
    END IF;
    SELECT expires_at INTO STRICT ends FROM lease_terms WHERE number = lease.term;
    RETURN ends <= clock_timestamp();
END $$;
