//! Definition of every key: path, type, default, help text, example. Nothing about a key is defined
//! anywhere else.

use super::value_type::ValueType;

/// Prefix of the server's environment variables.
pub(super) const PREFIX: &str = "FLEETWRIGHT_";

/// A configuration key.
#[derive(Debug, Clone, Copy)]
pub struct ConfigKey {
    /// `table.key` in the file; the flag is `--table-key`, the environment variable
    /// `FLEETWRIGHT_TABLE_KEY`.
    pub path: &'static str,
    /// Flag without its dashes.
    pub flag: &'static str,
    /// Type of the value.
    pub kind: ValueType,
    /// Default value; empty means unset.
    pub default: &'static str,
    /// Help text of `--help` and `explain`.
    pub help: &'static str,
    /// Example value.
    pub example: &'static str,
    /// Whether the value is hidden in output.
    pub secret: bool,
}

impl ConfigKey {
    /// Environment variable of this key.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.flag.replace('-', "_").to_uppercase())
    }
}

const fn key(
    path: &'static str,
    flag: &'static str,
    kind: ValueType,
    default: &'static str,
    example: &'static str,
    help: &'static str,
) -> ConfigKey {
    ConfigKey { path, flag, kind, default, help, example, secret: false }
}

/// All keys, by table.
pub const KEYS: &[ConfigKey] = &[
    key(
        "listen.grpc",
        "listen-grpc",
        ValueType::Address,
        "127.0.0.1:7450",
        "0.0.0.0:7450",
        "Address of the gRPC listener for agents and API clients. A non-loopback address requires listen.tls-certificate and auth.file.",
    ),
    key(
        "listen.http",
        "listen-http",
        ValueType::Address,
        "127.0.0.1:7480",
        "127.0.0.1:0",
        "Address of the HTTP listener: dashboard, /metrics, /healthz and /readyz. A non-loopback address requires listen.tls-certificate and auth.file.",
    ),
    key(
        "listen.tls-certificate",
        "listen-tls-certificate",
        ValueType::File,
        "",
        "/etc/fleetwright/tls/tls.crt",
        "TLS certificate chain of this server (PEM), used by both listeners. Reloaded when the file changes. Unset: connections are not encrypted.",
    ),
    key(
        "listen.tls-key",
        "listen-tls-key",
        ValueType::File,
        "",
        "/etc/fleetwright/tls/tls.key",
        "Private key of listen.tls-certificate (PEM). Reloaded when the file changes.",
    ),
    key(
        "listen.client-ca",
        "listen-client-ca",
        ValueType::File,
        "",
        "/etc/fleetwright/tls/agents-ca.crt",
        "Certificate authorities (PEM) that sign client certificates of agents. Reloaded when the file changes. Unset: agents authenticate by token only.",
    ),
    key(
        "auth.file",
        "auth-file",
        ValueType::File,
        "",
        "/etc/fleetwright/auth.toml",
        "File that maps agent identities to clusters and API clients to scopes; see deploy/auth.toml for an example. Reloaded when it changes. Unset: no authentication; every peer has every right, and only loopback addresses are allowed.",
    ),
    ConfigKey {
        secret: true,
        ..key(
            "store.database-url",
            "store-database-url",
            ValueType::DatabaseUrl,
            "",
            "postgres://fleetwright@db.internal/fleetwright",
            "URL of the PostgreSQL database that persists leases, intents, decisions and all other durable state. Unset: the server runs a local PostgreSQL in store.data-dir. The environment variable DATABASE_URL is also read.",
        )
    },
    key(
        "store.data-dir",
        "store-data-dir",
        ValueType::Directory,
        "/var/lib/fleetwright",
        "/srv/fleetwright",
        "Data directory of the local PostgreSQL that the server runs when store.database-url is unset. The default of another user than root is fleetwright in $XDG_STATE_HOME or ~/.local/state. Requires the PostgreSQL server binaries on this host; only the server's OS user can access its socket.",
    ),
    key(
        "store.memory",
        "store-memory",
        ValueType::Boolean,
        "false",
        "true",
        "When store.database-url is unset, keep all state in memory instead of running a local PostgreSQL. The state is lost when the process exits.",
    ),
    key(
        "store.migrate",
        "store-migrate",
        ValueType::Boolean,
        "true",
        "false",
        "Apply schema migrations at startup. When false, startup fails if the schema is outdated, and the error names the required version.",
    ),
    key(
        "store.connections",
        "store-connections",
        ValueType::Number,
        "10",
        "20",
        "Maximum number of database connections per replica.",
    ),
    key(
        "store.keep-log",
        "store-keep-log",
        ValueType::Duration,
        "336h",
        "30d",
        "Retention of the decision log: decisions and the records needed to replay them.",
    ),
    key("store.keep-ended", "store-keep-ended", ValueType::Duration, "24h", "3d", "Retention of closed launches."),
    key(
        "store.keep-clusters",
        "store-keep-clusters",
        ValueType::Duration,
        "2160h",
        "365d",
        "Retention of a cluster's lease row, with its unfinished operations, after the last replica released the cluster. A cluster that reconnects later starts without stored state; its instances are recovered from their NodeClaims.",
    ),
    key(
        "cloud.provider",
        "cloud-provider",
        ValueType::Choice("simulated|ec2"),
        "simulated",
        "ec2",
        "Cloud provider that instances are launched in. `ec2` requires a binary built with the cargo feature `ec2`; credentials come from the default AWS credential chain.",
    ),
    key(
        "cloud.account",
        "cloud-account",
        ValueType::Text,
        "default",
        "123456789012",
        "Name of the cloud account that instances are launched in. Replicas on one database with the same account and region share instance listings and unavailable offerings. Replicas with credentials of different accounts must use different names.",
    ),
    key(
        "cloud.region",
        "cloud-region",
        ValueType::Text,
        "us-east-1",
        "eu-west-1",
        "Cloud region that instances are launched in.",
    ),
    key(
        "cloud.catalogue",
        "cloud-catalogue",
        ValueType::File,
        "",
        "/etc/fleetwright/catalogue.json",
        "Catalogue file with instance types and prices; overrides the built-in catalogue. Format: output of `fleetwright catalogue export`.",
    ),
    key(
        "cloud.endpoint",
        "cloud-endpoint",
        ValueType::Url,
        "",
        "https://ec2.eu-west-1.api.aws",
        "EC2 API endpoint; overrides the region's default endpoint, for example with a VPC endpoint.",
    ),
    key(
        "cloud.launch-template",
        "cloud-launch-template",
        ValueType::Text,
        "",
        "fleetwright-nodes",
        "Name of the EC2 launch template of every instance: AMI, security groups, instance profile, user data. Required for EC2.",
    ),
    key(
        "cloud.launch-template-version",
        "cloud-launch-template-version",
        ValueType::Text,
        "$Default",
        "7",
        "Version of the EC2 launch template: a number, $Default or $Latest.",
    ),
    key(
        "cloud.subnets",
        "cloud-subnets",
        ValueType::Pairs,
        "",
        "us-east-1a=subnet-0a1b2c,us-east-1b=subnet-0d4e5f",
        "Subnet per zone. Required for EC2; no instance is launched in a zone without a subnet.",
    ),
    key(
        "cloud.address",
        "cloud-address",
        ValueType::Url,
        "",
        "http://127.0.0.1:7460",
        "Address of an external simulated cloud (`fleetwright simulated-cloud`); its instances survive a restart of this server. Unset: the simulated cloud runs in this process and ends with it.",
    ),
    key(
        "cloud.seed",
        "cloud-seed",
        ValueType::Number,
        "0",
        "42",
        "Seed of the simulated cloud's random number generator.",
    ),
    key(
        "cloud.boot",
        "cloud-boot",
        ValueType::Duration,
        "3s",
        "30s",
        "Time from launch to running of an instance in the simulated cloud.",
    ),
    key(
        "cloud.no-capacity",
        "cloud-no-capacity",
        ValueType::Boolean,
        "false",
        "true",
        "Make the simulated cloud fail every launch with insufficient capacity.",
    ),
    key(
        "control.batch-idle",
        "control-batch-idle",
        ValueType::Duration,
        "1s",
        "500ms",
        "Idle time that closes a batch of pending pods: planning starts when no new pending pod has arrived for this duration (Karpenter's BATCH_IDLE_DURATION).",
    ),
    key(
        "control.hold-after-external-scale-up",
        "control-hold-after-external-scale-up",
        ValueType::Duration,
        "5m",
        "10m",
        "How long a pod is excluded from planning after Cluster Autoscaler triggered a scale-up for it. Prevents both autoscalers from launching capacity for the same pod.",
    ),
    key(
        "control.batch-max",
        "control-batch-max",
        ValueType::Duration,
        "10s",
        "5s",
        "Maximum duration of a batch of pending pods (Karpenter's BATCH_MAX_DURATION).",
    ),
    key(
        "control.plan-pods",
        "control-plan-pods",
        ValueType::Number,
        "5000",
        "10000",
        "Maximum number of pods per plan, ordered by priority and then by age. The remaining pods are planned immediately afterwards. 0: unlimited.",
    ),
    key(
        "control.plan-steps",
        "control-plan-steps",
        ValueType::Number,
        "200000000",
        "50000000",
        "Step budget of one plan, about 50 ns per step. Pods that are not reached within the budget go into the next plan. 0: unlimited.",
    ),
    key(
        "control.search-cpu",
        "control-search-cpu",
        ValueType::Percent,
        "25",
        "50",
        "Percent of this host's processors that searches for plans cheaper than the first packing may use, all clusters together, on average over 10 seconds. A search runs while the batch window is open, and delays no plan. 0 disables searches: every plan is the first packing.",
    ),
    key(
        "control.preferred-terms",
        "control-preferred-terms",
        ValueType::Number,
        "20",
        "64",
        "Maximum number of preferences evaluated per pod, highest weight first: preferred node affinity, preferred pod (anti-)affinity, ScheduleAnyway topology spread.",
    ),
    key(
        "control.gc-after",
        "control-gc-after",
        ValueType::Duration,
        "60s",
        "30s",
        "Garbage collection delay: how long an instance without a NodeClaim, or a NodeClaim without an instance, must be observed before it is removed. 0s disables garbage collection.",
    ),
    key(
        "control.register-together",
        "control-register-together",
        ValueType::Duration,
        "10s",
        "0s",
        "Registration gate: maximum time that a ready Node stays unschedulable until the other Nodes of the same decision are ready. Lets kube-scheduler bind pods to their planned Nodes. 0s makes every Node schedulable as soon as it is ready.",
    ),
    key(
        "control.preference-policy",
        "control-preference-policy",
        ValueType::Choice("Respect|Ignore"),
        "Respect",
        "Ignore",
        "Whether planning respects preferred (soft) scheduling constraints of pods (Karpenter's PREFERENCE_POLICY).",
    ),
    key(
        "control.min-values-policy",
        "control-min-values-policy",
        ValueType::Choice("Strict|BestEffort"),
        "Strict",
        "BestEffort",
        "Behaviour when the minValues of a NodePool cannot be satisfied (Karpenter's MIN_VALUES_POLICY).",
    ),
    key(
        "guardrails.mode",
        "guardrails-mode",
        ValueType::Choice("act|shadow"),
        "act",
        "shadow",
        "Execution mode. `act` executes decisions; `shadow` only records them (dry run).",
    ),
    key(
        "guardrails.shadow-clusters",
        "guardrails-shadow-clusters",
        ValueType::Text,
        "",
        "staging,payments-eu",
        "Comma-separated clusters that run in shadow mode regardless of guardrails.mode.",
    ),
    key(
        "guardrails.quarantine-percent",
        "guardrails-quarantine-percent",
        ValueType::Percent,
        "50",
        "90",
        "Quarantine threshold in percent. A cluster is quarantined when more than this share of its pods, Nodes, NodeClaims, NodePools or running instances disappears between two snapshots or by unannounced removals. The quarantine ends when a second snapshot and an independent source confirm the loss, or when an operator releases it. 0 disables quarantine.",
    ),
    key(
        "guardrails.quarantine-confirm",
        "guardrails-quarantine-confirm",
        ValueType::Duration,
        "60s",
        "5m",
        "Delay before a confirming snapshot is requested from a quarantined cluster's agent.",
    ),
    key(
        "guardrails.quarantine-window",
        "guardrails-quarantine-window",
        ValueType::Duration,
        "60s",
        "2m",
        "Sliding window in which unannounced removals are summed for guardrails.quarantine-percent. 0s accepts every removal.",
    ),
    key(
        "guardrails.quarantine-hold-percent",
        "guardrails-quarantine-hold-percent",
        ValueType::Percent,
        "90",
        "70",
        "Hold threshold in percent. A loss above this share is not released by confirming snapshots and sources; the quarantine lasts until guardrails.quarantine-hold has passed or an operator releases it.",
    ),
    key(
        "guardrails.quarantine-hold",
        "guardrails-quarantine-hold",
        ValueType::Duration,
        "0s",
        "6h",
        "Duration of a quarantine above guardrails.quarantine-hold-percent. 0s: until an operator releases it.",
    ),
    key(
        "guardrails.launch-window",
        "guardrails-launch-window",
        ValueType::Duration,
        "10m",
        "5m",
        "Sliding window of the launch rate limits.",
    ),
    key(
        "guardrails.launches-per-cluster",
        "guardrails-launches-per-cluster",
        ValueType::Number,
        "500",
        "50",
        "Launch rate limit per cluster: maximum instances per guardrails.launch-window. 0: unlimited.",
    ),
    key(
        "guardrails.launches-per-fleet",
        "guardrails-launches-per-fleet",
        ValueType::Number,
        "2000",
        "200",
        "Launch rate limit of the fleet: maximum instances per guardrails.launch-window, over all clusters and replicas. 0: unlimited.",
    ),
    key(
        "guardrails.launch-dollars-per-cluster",
        "guardrails-launch-dollars-per-cluster",
        ValueType::Number,
        "1000",
        "100",
        "Launch cost limit per cluster: maximum total price of the instances launched per guardrails.launch-window, in US dollars per hour. 0: unlimited.",
    ),
    key(
        "guardrails.launch-dollars-per-fleet",
        "guardrails-launch-dollars-per-fleet",
        ValueType::Number,
        "5000",
        "500",
        "Launch cost limit of the fleet: maximum total price of the instances launched per guardrails.launch-window over all clusters, in US dollars per hour. 0: unlimited.",
    ),
    key(
        "guardrails.removal-window",
        "guardrails-removal-window",
        ValueType::Duration,
        "10m",
        "30m",
        "Sliding window of the removal rate limits. Instances that the cloud reclaims or operators delete are not counted.",
    ),
    key(
        "guardrails.removals-per-cluster",
        "guardrails-removals-per-cluster",
        ValueType::Number,
        "200",
        "20",
        "Removal rate limit per cluster: maximum instances per guardrails.removal-window. 0: unlimited.",
    ),
    key(
        "guardrails.removals-per-fleet",
        "guardrails-removals-per-fleet",
        ValueType::Number,
        "1000",
        "100",
        "Removal rate limit of the fleet: maximum instances per guardrails.removal-window, over all clusters and replicas. 0: unlimited.",
    ),
    key(
        "guardrails.removal-percent-per-cluster",
        "guardrails-removal-percent-per-cluster",
        ValueType::Percent,
        "50",
        "20",
        "Removal rate limit per cluster in percent of its instances per guardrails.removal-window; 10 removals are always allowed. 0: unlimited.",
    ),
    key(
        "guardrails.removal-percent-per-fleet",
        "guardrails-removal-percent-per-fleet",
        ValueType::Percent,
        "25",
        "10",
        "Removal rate limit of the fleet in percent of all instances per guardrails.removal-window; 50 removals are always allowed. 0: unlimited.",
    ),
    key(
        "guardrails.launches-per-pod",
        "guardrails-launches-per-pod",
        ValueType::Number,
        "3",
        "5",
        "Launch backoff: number of launches for a pod that never becomes bound before further launches for it are delayed. 0 disables the backoff.",
    ),
    key(
        "guardrails.pod-wait",
        "guardrails-pod-wait",
        ValueType::Duration,
        "2m",
        "5m",
        "Initial delay of the launch backoff. It doubles with every further launch for the pod, up to one hour.",
    ),
    key(
        "guardrails.circuit-breaker-percent",
        "guardrails-circuit-breaker-percent",
        ValueType::Percent,
        "50",
        "30",
        "Circuit breaker: voluntary removals stop fleet-wide while at least this percentage of launches fails, counted over all replicas. 0 disables it.",
    ),
    key(
        "guardrails.circuit-breaker-release-percent",
        "guardrails-circuit-breaker-release-percent",
        ValueType::Percent,
        "20",
        "10",
        "Circuit breaker: voluntary removals resume when at most this percentage of launches fails.",
    ),
    key(
        "guardrails.circuit-breaker-window",
        "guardrails-circuit-breaker-window",
        ValueType::Duration,
        "10m",
        "5m",
        "Sliding window of launches that the circuit breaker evaluates.",
    ),
    key(
        "guardrails.replacement-wait",
        "guardrails-replacement-wait",
        ValueType::Duration,
        "15s",
        "30s",
        "Maximum delay of the drain of an instance that must be replaced, until replacement capacity for its pods is planned. 0s drains immediately.",
    ),
    key(
        "lease.owner",
        "lease-owner",
        ValueType::Text,
        "",
        "fleetwright-0",
        "Lease holder identity of this replica; must be unique among running processes. A restarted server with the same identity reacquires its leases immediately instead of waiting for lease.duration. Unset: the host name plus a hash of listen.grpc, the network namespace and the boot id (random if the port is 0), so that replicas can share one configuration file.",
    ),
    key(
        "lease.duration",
        "lease-duration",
        ValueType::Duration,
        "30s",
        "1m",
        "Duration of a cluster lease without renewal. The holder renews it every third of this duration.",
    ),
    key(
        "session.memory",
        "session-memory",
        ValueType::Number,
        "256",
        "512",
        "Memory limit for the objects of one cluster, in MiB (estimated, about 1 KiB per pod). The server closes a session that exceeds it and sends the agent the reason.",
    ),
    key(
        "session.memory-total",
        "session-memory-total",
        ValueType::Number,
        "0",
        "4096",
        "Memory limit for the objects of all clusters, in MiB (estimated). Above it, the server closes sessions that use more than an equal share. 0: half of the memory available to this process.",
    ),
    key(
        "shutdown.grace",
        "shutdown-grace",
        ValueType::Duration,
        "10s",
        "30s",
        "Grace period for open connections at shutdown.",
    ),
    key(
        "log.filter",
        "log-filter",
        ValueType::LogFilter,
        "info",
        "fleetwright=debug,info",
        "What to log on standard error: a level (off, error, warn, info, debug, trace), or levels by module, in RUST_LOG syntax.",
    ),
    key("log.format", "log-format", ValueType::Choice("text|json"), "text", "json", "Format of log lines."),
    key(
        "trace.collector",
        "trace-collector",
        ValueType::Url,
        "",
        "http://127.0.0.1:4317",
        "OTLP/gRPC endpoint for traces: one trace per launching decision, from its first pod to the instance ids. Unset: tracing is off. OTEL_EXPORTER_OTLP_ENDPOINT and the other OpenTelemetry variables (service name, headers, sampler) are also read.",
    ),
];

impl ConfigKey {
    /// The help of the flag: the meaning, and the other ways to set the value.
    #[must_use]
    pub fn flag_help(&self) -> String {
        let default = if self.default.is_empty() { String::new() } else { format!(" [default: {}]", self.default) };
        format!("{} [key: {}] [env: {}]{default}", self.help, self.path, self.variable())
    }
}

/// The key with this path.
pub(super) fn find(path: &str) -> Option<&'static ConfigKey> {
    KEYS.iter().find(|key| key.path == path)
}
