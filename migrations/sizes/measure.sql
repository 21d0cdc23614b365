-- What the store's statements cost at 1,000 clusters: fills an empty, migrated database and explains the statements that
-- run often or on much. Figures of one run are in ../README.md.
\set clusters 1000
\set ON_ERROR_STOP on
\timing off

INSERT INTO lease_terms (expires_at) SELECT now() + interval '30 s' FROM generate_series(1, 2);
INSERT INTO leases (scope, owner, epoch, expires_at, term)
SELECT 'cluster/c' || n, 'fleetwright-' || n % 2, 1, 'infinity', n % 2 + 1 FROM generate_series(1, :clusters) n;

INSERT INTO samples (bytes) SELECT convert_to(repeat('request ', 120), 'UTF8');
-- 100 machines that run for each cluster, and the launches of a day that are over.
INSERT INTO intents (scope, claim, attempt, token, state, provider_id, settled_at, sample, orders)
SELECT 'cluster/c' || c, 'pool-' || m, 1, 'pool-' || m || '-1', 'launched', 'aws:///us-east-1a/i-' || c || '-' || m, now(),
       1, convert_to(repeat('p', 90), 'UTF8')
FROM generate_series(1, :clusters) c, generate_series(1, 100) m;
INSERT INTO intents (scope, claim, attempt, token, state, provider_id, settled_at, closed_at, sample, orders)
SELECT 'cluster/c' || c, 'gone-' || m, 1, 'gone-' || m || '-1', 'launched', 'aws:///us-east-1a/i-' || c || '-' || m, now(),
       now() - random() * interval '24 h', 1, convert_to(repeat('p', 90), 'UTF8')
FROM generate_series(1, :clusters) c, generate_series(1, 200) m;

-- Three days of decisions and of the log, thinned out: 200 a cluster and day.
SELECT make_log_partitions((now() AT TIME ZONE 'UTC')::date - 2, 3);
INSERT INTO decisions (scope, number, decided_at, epoch, kind, segment, sample, body)
SELECT 'cluster/c' || c, (d * 1000000 + n) * 1000 + c, (now() - d * interval '1 day') - n * interval '1 second', 1, 'provision',
       3 - d, 1, convert_to(repeat('p', 230), 'UTF8')
FROM generate_series(1, :clusters) c, generate_series(0, 2) d, generate_series(1, 200) n;
INSERT INTO log_segments (scope, segment, epoch, started_at)
SELECT 'cluster/c' || c, 3 - d, 1, now() - d * interval '1 day' - interval '200 s'
FROM generate_series(1, :clusters) c, generate_series(0, 2) d;
INSERT INTO log_chunks (scope, segment, first_sequence, last_sequence, written_at, bytes)
SELECT 'cluster/c' || c, 3 - d, n * 10, n * 10 + 9, (now() - d * interval '1 day') - n * interval '5 second', sha512('a')
FROM generate_series(1, :clusters) c, generate_series(0, 2) d, generate_series(1, 40) n;
-- Counters of ten replicas in every time bucket of a day.
INSERT INTO guardrail_counters
SELECT 'fleetwright-' || p || '/1', n, now() - n * interval '10 s', 100, 1, 0, 1, 10000, 1, 10000
FROM generate_series(1, 10) p, generate_series(0, 8639) n;
VACUUM ANALYZE;

\echo '== renew 500 leases of one of two replicas: look which are held, then write one row'
BEGIN;
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
WITH given AS (SELECT array_agg(scope) AS scopes, array_agg(owner) AS owners, array_agg(epoch) AS epochs FROM leases WHERE term = 1),
     held AS (SELECT leases.scope, term FROM given, unnest(scopes, owners, epochs) AS asked (scope, owner, epoch)
              JOIN leases USING (scope, owner, epoch)),
     beside AS (SELECT DISTINCT term FROM leases
                WHERE term IN (SELECT term FROM held) AND scope NOT IN (SELECT scope FROM held))
SELECT held.term, beside.term IS NOT NULL FROM held LEFT JOIN beside ON beside.term = held.term;
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, WAL)
UPDATE lease_terms SET expires_at = clock_timestamp() + interval '30 s' WHERE number = 1;
ROLLBACK;
\echo '== hold a lease'
BEGIN;
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, WAL) SELECT hold_lease('cluster/c500', 'fleetwright-0', 1);
ROLLBACK;
\echo '== launches that come back with a lease'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT intents.claim, token, state, provider_id, why, request, claim_order, sample, intents.orders
FROM intents LEFT JOIN launch_requests ON state <> 'launched' AND intents.orders IS NULL
     AND launch_requests.scope = intents.scope
     AND launch_requests.claim = intents.claim AND launch_requests.attempt = intents.attempt
WHERE intents.scope = 'cluster/c500' AND closed_at IS NULL ORDER BY intents.claim COLLATE "C";
\echo '== the last decisions of a cluster'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT * FROM decisions WHERE scope = 'cluster/c500' AND number < 9223372036854775807 ORDER BY number DESC LIMIT 100;
\echo '== the last decisions of the fleet'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT * FROM decisions WHERE number < 9223372036854775807 ORDER BY number DESC LIMIT 100;
\echo '== a decision by number'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) SELECT * FROM decisions WHERE number = 1000100500;
\echo '== a segment of the log: the first event, then those of its decisions'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT sample, body FROM decisions
WHERE scope = 'cluster/c500' AND number >= 3 AND segment = 3 AND body IS NOT NULL
  AND decided_at >= now() - interval '2 day' AND decided_at < now() + interval '2 days';
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT bytes FROM log_chunks
WHERE scope = 'cluster/c500' AND segment = 3 AND written_at >= now() - interval '1 day' ORDER BY first_sequence;
\echo '== launches to prune'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT ctid FROM intents
WHERE ctid >= '(0,0)'::text::tid AND ctid < '(4096,0)'::text::tid AND closed_at < now() - interval '23 h';
\echo '== launches of the last hour that come back with a lease'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT * FROM intents WHERE scope = 'cluster/c500' AND closed_at IS NULL
UNION ALL SELECT * FROM intents WHERE scope = 'cluster/c500' AND closed_at > now() - interval '1 hour';
\echo '== write the counters of two time buckets, one of which has a row'
BEGIN;
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, WAL)
INSERT INTO guardrail_counters (process, machines, bucket, at, joined, failed, launched, launched_cost, removed, removed_cost)
SELECT 'fleetwright-1/1', 100, bucket, now(), 1, 0, 1, 10000, 1, 10000 FROM unnest(ARRAY[0, -1]) AS given (bucket)
ON CONFLICT (process, bucket) DO UPDATE SET machines = excluded.machines, joined = excluded.joined + 1;
ROLLBACK;
\echo '== read the counters of nine other replicas for ten minutes, and their machine counts'
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT (milliseconds(now()) - milliseconds(at)) / 10000, sum(joined)::bigint, sum(failed)::bigint, sum(launched)::bigint,
       sum(launched_cost)::bigint, sum(removed)::bigint, sum(removed_cost)::bigint
FROM guardrail_counters WHERE at > now() - interval '10 min' AND process <> 'fleetwright-1/1' GROUP BY 1 ORDER BY 1 DESC;
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF)
SELECT coalesce(sum(machines), 0)::bigint
FROM (SELECT DISTINCT ON (process) machines FROM guardrail_counters
      WHERE at > now() - interval '1 min' AND process <> 'fleetwright-1/1' ORDER BY process, at DESC, bucket DESC) AS last;
\echo '== take tokens of the API budget, while calls of four replicas wait'
INSERT INTO api_buckets VALUES ('region/default/eu-west-1', 'CreateFleet', 0, '{0,0,0,0}', 5000, 0);
INSERT INTO api_waiters SELECT 'region/default/eu-west-1', 'CreateFleet', 'fleetwright-' || p, '{0,0,9,9}', '{0,0,0,0}', 0 FROM generate_series(1, 4) p;
BEGIN;
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, WAL)
SELECT level, kept, rate FROM api_buckets WHERE scope = 'region/default/eu-west-1' AND bucket = 'CreateFleet' FOR UPDATE;
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, WAL)
SELECT process, counts FROM api_waiters WHERE scope = 'region/default/eu-west-1' AND bucket = 'CreateFleet';
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, WAL)
UPDATE api_buckets SET level = 1, kept = '{0,0,1,1}', at_ms = 1 WHERE scope = 'region/default/eu-west-1' AND bucket = 'CreateFleet';
ROLLBACK;
\echo '== sizes'
SELECT relname, n_live_tup AS rows, pg_size_pretty(pg_total_relation_size(relid)) AS with_indexes,
       pg_total_relation_size(relid) / greatest(n_live_tup, 1) AS bytes_a_row
FROM pg_stat_user_tables WHERE n_live_tup > 100 ORDER BY relname;
