//! Definition of the keys: path, type, default, example, help text. Nothing about a key is defined
//! anywhere else.

use settings::ValueType::{
    Address, Boolean, Choice, Directory, Dollars, Duration, File, LogFilter, Number, Percent, Text, Url,
};
use settings::{Key, Schema, keys};

use super::guardrails;
use super::value_type::{DATABASE_URL, FEATURE_GATES, NODE_LIMIT, PREFIX};
use telemetry::{ACCEPTED_FILTERS, COLLECTOR_VARIABLE};

/// `FLEETWRIGHT_CONFIG` names the configuration file; not a key.
pub const FILE_VARIABLE: &str = "FLEETWRIGHT_CONFIG";

pub(crate) const SCHEMA: Schema = Schema {
    keys: KEYS,
    prefix: PREFIX,
    // Variables of client commands, and those of the agent.
    other_variables: &[
        FILE_VARIABLE,
        "FLEETWRIGHT_SERVER",
        "FLEETWRIGHT_CA_FILE",
        "FLEETWRIGHT_TOKEN_FILE",
        "FLEETWRIGHT_AGENT_",
    ],
    external_variables: &[("DATABASE_URL", "store.database-url"), (COLLECTOR_VARIABLE, "trace.collector")],
    former_flags: &[],
    renamed: &[
        ("rails-brake-", "guardrails-circuit-breaker-"),
        ("rails-", "guardrails-"),
        ("trust-file", "auth-file"),
        ("control-collect-after", "control-gc-after"),
        ("control-hold-after-foreign-scale-up", "control-hold-after-external-scale-up"),
        ("control-open-together", "control-register-together"),
    ],
    permits_quotes: false,
    all_keys: "`fleetwright explain config`",
};

/// All keys, by table: type, default (empty: unset), example, help. Those of guardrails are beside their reader.
pub const KEYS: &[Key] =
    &settings::join::<{ FIRST.len() + guardrails::KEYS.len() + LAST.len() }>(&[FIRST, guardrails::KEYS, LAST]);

/// The keys before those of guardrails.
const FIRST: &[Key] = keys! {
    PREFIX;
    ["listen"]
    "grpc": Address, "127.0.0.1:7450", "0.0.0.0:7450",
        "Address of the gRPC listener for agents and API clients. A non-loopback address requires listen.tls-certificate and auth.file.";
    "advertised-address": Text, "", "10.0.0.7:7450",
        "Host and port at which other replicas on the same database reach listen.grpc, to answer for the whole fleet. Unset: listen.grpc, unless that is an unspecified address such as 0.0.0.0; this replica's clusters are then shown by other replicas from summaries in the database, up to 30 s old.";
    "http": Address, "127.0.0.1:7480", "127.0.0.1:0",
        "Address of the HTTP listener: dashboard, /metrics, /healthz and /readyz. A non-loopback address requires listen.tls-certificate and auth.file.";
    "tls-certificate": File, "", "/etc/fleetwright/tls/tls.crt",
        "TLS certificate chain of this server (PEM), used by both listeners. Reloaded when the file changes. Unset: connections are not encrypted.";
    "tls-key": File, "", "/etc/fleetwright/tls/tls.key",
        "Private key of listen.tls-certificate (PEM). Reloaded when the file changes.";
    "client-ca": File, "", "/etc/fleetwright/tls/agents-ca.crt",
        "Certificate authorities (PEM) that sign client certificates of agents. Reloaded when the file changes. Unset: agents authenticate by token only.";

    ["auth"]
    "file": File, "", "/etc/fleetwright/auth.toml",
        "File that maps agent identities to clusters and API clients to scopes; see deploy/auth.toml for an example. Reloaded when it changes. Unset: no authentication; every peer has every right, and only loopback addresses are allowed.";

    ["store"]
    "database-url": DATABASE_URL, "", "postgres://fleetwright@db.internal/fleetwright",
        "URL of the PostgreSQL database that persists leases, intents, decisions and all other durable state. Unset: the server runs a local PostgreSQL in store.data-dir. The environment variable DATABASE_URL is also read.", secret;
    "data-dir": Directory, "/var/lib/fleetwright", "/srv/fleetwright",
        "Data directory of the local PostgreSQL that the server runs when store.database-url is unset. The default of another user than root is fleetwright in $XDG_STATE_HOME or ~/.local/state. Requires the PostgreSQL server binaries on this host; only the server's OS user can access its socket.";
    "memory": Boolean, "false", "true",
        "When store.database-url is unset, keep all state in memory instead of running a local PostgreSQL. The state is lost when the process exits.";
    "migrate": Boolean, "true", "false",
        "Apply schema migrations at startup. When false, startup fails if the schema is outdated, and the error names the required version.";
    "connections": Number, "10", "20",
        "Maximum number of database connections per replica.";
    "keep-log": Duration, "336h", "30d",
        "Retention of the decision log: decisions and the records needed to replay them.";
    "keep-ended": Duration, "24h", "3d",
        "Retention of closed launches.";
    "keep-clusters": Duration, "2160h", "365d",
        "Retention of a cluster's lease row, with its unfinished operations, after the last replica released the cluster. A cluster that reconnects later starts without stored state; its instances are recovered from their NodeClaims.";
    "keep-costs": Duration, "9600h", "800d",
        "Retention of what machines have cost: by the hour for a week, then by the day. The default, 400 days, covers a month and the same one a year before.";

    ["cloud"]
    "account": Text, "default", "123456789012",
        "Name of the cloud account that instances are launched in. Replicas on one database with the same account and region share instance listings and unavailable offerings. Replicas with credentials of different accounts must use different names.";
    "region": Text, "us-east-1", "eu-west-1",
        "Cloud region that instances are launched in.";
    "accounts-file": File, "", "/etc/fleetwright/accounts.toml",
        "File of several accounts and regions that this server launches instances in, with their clusters, roles and queues; see deploy/accounts.toml for an example, and `fleetwright accounts check`. It is read when the server starts. cloud.account, cloud.region, cloud.api-limit-percent and interruption.queue must be unset then, because each entry has its own. A cluster that no entry names is refused. Unset: one account and region.";
    "catalogue": File, "", "/etc/fleetwright/catalogue.json",
        "Catalogue file with instance types and prices; overrides the built-in catalogue. Format: output of `fleetwright catalogue export`. It is what a server on EC2 plans with until the refreshes of cloud.*-refresh-interval have read AWS's; set these to 0s to keep it.";
    "instance-type-refresh-interval": Duration, "24h", "12h",
        "How often a server on EC2 reads instance types and the zones that offer them, once for all clusters of an account and region. A failed read keeps the last ones. 0s: never, and those of the catalogue are used.";
    "on-demand-price-refresh-interval": Duration, "12h", "24h",
        "How often a server on EC2 reads on-demand prices from the Pricing API, likewise. 0s: never, and those of the catalogue are used, as in isolated VPCs without a way to that API.";
    "spot-price-refresh-interval": Duration, "5m", "12h",
        "How often a server on EC2 reads spot prices, likewise. Prices that differ by less than 1 % from those in use are not used. 0s: never, and those of the catalogue are used.";
    "endpoint": Url, "", "http://127.0.0.1:7461",
        "Endpoint of all AWS APIs in place of the region's own ones, for example of a stand-in for AWS in tests.";
    "api-limit-percent": Number, "100", "400",
        "Rate limits of EC2's API in the account and region, in percent of EC2's defaults: above 100 where AWS has raised them, below where other programs need a part of them. All replicas together send no more calls than these limits admit, and fewer while EC2 throttles. At least 1.";

    ["control"]
    "batch-idle": Duration, "1s", "500ms",
        "Idle time that closes a batch of pending pods: planning starts when no new pending pod has arrived for this duration (Karpenter's BATCH_IDLE_DURATION).";
    "hold-after-external-scale-up": Duration, "5m", "10m",
        "How long a pod is excluded from planning after Cluster Autoscaler triggered a scale-up for it. Prevents both autoscalers from launching capacity for the same pod.";
    "schedulers": Text, "", "volcano,yunikorn",
        "Comma-separated names of further schedulers (spec.schedulerName of pods) that place pods by kube-scheduler's rules. Their pods are planned when they are reported as Unschedulable, and never nominated. Pods of other schedulers are not planned, and nodes that they run on are not consolidated.";
    "batch-max": Duration, "10s", "5s",
        "Maximum duration of a batch of pending pods (Karpenter's BATCH_MAX_DURATION).";
    "plan-pods": Number, "5000", "10000",
        "Maximum number of pods per plan, ordered by priority and then by age. The remaining pods are planned immediately afterwards. 0: unlimited.";
    "plan-steps": Number, "200000000", "50000000",
        "Step budget of one plan, about 50 ns per step. Pods that are not reached within the budget go into the next plan. 0: unlimited.";
    "search-cpu": Percent, "25", "50",
        "Percent of this host's processors that searches for plans cheaper than the first packing may use, all clusters together, on average over 10 seconds. A search runs while the batch window is open, and delays no plan. Consolidation searches within the same share for Nodes that are replaced together. 0 disables searches: every plan is the first packing, and each Node is replaced by itself.";
    "feature-gates": FEATURE_GATES, "", "NodeRepair=true",
        "Features that are off by default, by the names of Karpenter's FEATURE_GATES. NodeRepair: machines are replaced whose Node has been unhealthy for 10 to 30 minutes, unless more than a fifth of the NodePool is unhealthy. SpotToSpotConsolidation: consolidation replaces spot machines by cheaper spot machines.";
    "preferred-terms": Number, "20", "64",
        "Maximum number of preferences evaluated per pod, highest weight first: preferred node affinity, preferred pod (anti-)affinity, ScheduleAnyway topology spread.";
    "gc-after": Duration, "60s", "30s",
        "Garbage collection delay: how long an instance without a NodeClaim, or a NodeClaim without an instance, must be observed before it is removed. 0s disables garbage collection.";
    "register-together": Duration, "10s", "0s",
        "Registration gate: maximum time that a ready Node stays unschedulable until the other Nodes of the same decision are ready. Lets kube-scheduler bind pods to their planned Nodes. 0s makes every Node schedulable as soon as it is ready.";
    "preference-policy": Choice("Respect|Ignore"), "Respect", "Ignore",
        "Whether planning respects preferred (soft) scheduling constraints of pods (Karpenter's PREFERENCE_POLICY).";
    "min-values-policy": Choice("Strict|BestEffort"), "Strict", "BestEffort",
        "Behaviour when the minValues of a NodePool cannot be satisfied (Karpenter's MIN_VALUES_POLICY).";

    ["disruption"]
    "max-unavailable-nodes": NODE_LIMIT, "", "10%",
        "Budget of each cluster, over all its NodePools: maximum number of nodes, or percentage of them rounded up, that may be unavailable when a node is removed voluntarily (empty, drifted or underutilized), beside the budgets of its NodePool. Nodes that are not ready or that leave for any reason count. 0 stops voluntary removals. Unset: no limit.";
    "mode": Choice("on|shadow"), "on", "shadow",
        "What happens to voluntary removals (empty, drifted and underutilized nodes). `on` executes them; `shadow` only records which nodes would be removed and what they cost, while launches and all other removals are executed.";
    "shadow-clusters": Text, "", "payments-eu,payments-us",
        "Comma-separated clusters whose voluntary removals are only recorded, regardless of disruption.mode.";
    "consolidation": Boolean, "true", "false",
        "Whether Nodes with pods are removed, or replaced by cheaper ones, where their pods fit elsewhere at a lower price, as far as the disruption settings of their NodePools allow. Empty Nodes are removed in any case.";
    "pass-interval": Duration, "10s", "1s",
        "Minimum time between two passes over the nodes of a cluster that decide which ones leave (Karpenter: every 10 seconds). A pass takes place only if something has changed or becomes due. Less than 1s is 1s.";
    "interval": Duration, "15s", "1m",
        "Minimum time between two plans of consolidation of a cluster. A cluster is planned only if something has changed since a plan that found nothing that makes a removal possible (a pod that is gone or a new Node, but no pod that fills one), and otherwise every 5 minutes. Under load the interval is longer: see disruption.cpu.";
    "cpu": Percent, "25", "50",
        "Percent of this host's processors that plans of consolidation may use, all clusters together, on average. Plans that are due wait for it in the order in which they became due; those of clusters in which pods have gone, or the last plan found something, count as due 30 seconds earlier. These plans use processors that plans of pods leave. Less than 1 is 1.";
    "min-savings-usd-per-hour": Dollars, "0", "0.05",
        "Dollars per hour that a consolidation must save at least, beyond disruption.churn-price-usd-per-hour. It must save more than nothing in any case.";
    "churn-price-usd-per-hour": Dollars, "0", "0.001",
        "Dollars per hour that a consolidation must save for each pod that it moves.";
    "move-interval": Duration, "24h", "1h",
        "Consolidation leaves a pod that it has moved where it is for this time: nodes with such a pod are neither removed nor replaced by it. Empty nodes, drift, static scale-down, expiration, repair and interruptions are not held. 0s: a pod may be moved as often as that saves.";
    "repair": Choice("forceful|voluntary"), "forceful", "voluntary",
        "How unhealthy nodes are removed if control.feature-gates has NodeRepair. `forceful` deletes their pods at once, whatever budgets, PodDisruptionBudgets and do-not-disrupt say, unless more than 20 % of the nodes of the NodePool are unhealthy. `voluntary` replaces them first, within the disruption budgets that name no reason or Unhealthy, and only if do-not-disrupt and PodDisruptionBudgets let their pods go. karpenter.sh/do-not-repair on a Node holds both.";

    ["interruption"]
    "queue": Text, "", "fleetwright",
        "Name of the SQS queue of the account and region that receives EC2's interruption notices, as `fleetwright ec2 setup` creates it. Every replica receives from it, and the replica that owns the instance's cluster removes the Node before the instance ends. Empty: no notices are received; the end of an instance is found by listings.";
    "rebalance-recommendations": Choice("ignore|replace"), "ignore", "replace",
        "What follows when the cloud recommends to leave a spot instance that is at elevated risk of an interruption. `ignore` only records an Event; `replace` launches other capacity first, not of the same offering while it counts as refused, and then removes the Node. Freezes and guardrails.removals-per-cluster hold these removals, and disruption budgets do not.";
};

/// The keys after those of guardrails.
const LAST: &[Key] = keys! {
    PREFIX;
    ["lease"]
    "owner": Text, "", "fleetwright-0",
        "Lease holder identity of this replica; must be unique among running processes. A restarted server with the same identity reacquires its leases immediately instead of waiting for lease.duration. Unset: the host name plus a hash of listen.grpc, the network namespace and the boot id (random if the port is 0), so that replicas can share one configuration file.";
    "duration": Duration, "30s", "1m",
        "Duration of a cluster lease without renewal. The holder renews it every third of this duration.";

    ["session"]
    "memory": Number, "256", "512",
        "Memory limit for the objects of one cluster, in MiB (estimated, about 1 KiB per pod). The server closes a session that exceeds it and sends the agent the reason.";
    "memory-total": Number, "0", "4096",
        "Memory limit for the objects of all clusters, in MiB (estimated). Above it, the server closes sessions that use more than an equal share. 0: half of the memory available to this process.";

    ["shutdown"]
    "grace": Duration, "10s", "30s",
        "Grace period for open connections at shutdown.";

    ["log"]
    "filter": LogFilter(ACCEPTED_FILTERS), "info", "fleetwright=debug,info",
        "What to log on standard error: a level (off, error, warn, info, debug, trace), or levels by module, in RUST_LOG syntax.";
    "format": Choice("text|json"), "text", "json",
        "Format of log lines.";

    ["trace"]
    "collector": Url, "", "http://127.0.0.1:4317",
        "OTLP/gRPC endpoint for traces: one trace per decision, from its first pod until its pods are bound and its removed machines are gone, with spans of the agent, which needs no collector. Unset: tracing is off. OTEL_EXPORTER_OTLP_ENDPOINT and the other OpenTelemetry variables (service name, headers, sampler) are also read.";
};

/// The key with this path.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    SCHEMA.find(path)
}

/// The key that the flag `old`, without its dashes, has become.
pub fn key_of_flag(old: &str) -> Option<&'static Key> {
    SCHEMA.renamed_flag(old)
}
