//! The keys: name, type, default, meaning, example. Nothing about a key is written anywhere else.

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// An address to listen on, `host:port`; port 0 lets the system choose.
    Address,
    /// A whole number from 0.
    Number,
    /// `true` or `false`.
    Switch,
    /// A number with a unit: `500ms`, `10s`, `2m`, `1h`.
    Duration,
    /// Names and what stands for each: `a=b,c=d`.
    Pairs,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Kind {
    /// What is allowed, as the end of "… is not".
    #[must_use]
    pub fn expected(self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Address => "an address such as 127.0.0.1:7450".to_owned(),
            Self::Number => "a whole number from 0".to_owned(),
            Self::Switch => "true or false".to_owned(),
            Self::Duration => "a duration such as 500ms, 10s, 2m or 1h".to_owned(),
            Self::Pairs => "pairs such as a=b,c=d, each name once".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }

    /// The type's name in `explain`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Address => "address",
            Self::Number => "integer",
            Self::Switch => "boolean",
            Self::Duration => "duration",
            Self::Pairs => "map",
            Self::Choice(_) => "enum",
        }
    }
}

/// One thing that can be set.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `table.key` in the file; the flag is `--table-key`, the environment variable `FLEETWRIGHT_TABLE_KEY`.
    pub path: &'static str,
    /// The flag without its dashes.
    pub flag: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// The value when nobody says otherwise; empty means absent.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// A value as one would write it.
    pub example: &'static str,
    /// Never printed.
    pub secret: bool,
}

impl Key {
    /// The environment variable that sets it.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("FLEETWRIGHT_{}", self.flag.replace('-', "_").to_uppercase())
    }
}

const fn key(
    path: &'static str,
    flag: &'static str,
    kind: Kind,
    default: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key {
    Key { path, flag, kind, default, meaning, example, secret: false }
}

/// Every key, by table.
pub const KEYS: &[Key] = &[
    key(
        "listen.grpc",
        "listen-grpc",
        Kind::Address,
        "127.0.0.1:7450",
        "0.0.0.0:7450",
        "Where agents and programs connect (gRPC). Beyond loopback only with listen.tls-certificate and trust.file.",
    ),
    key(
        "listen.http",
        "listen-http",
        Kind::Address,
        "127.0.0.1:7480",
        "127.0.0.1:0",
        "Where the live page, /metrics, /healthz and /readyz are served. Beyond loopback only with listen.tls-certificate and trust.file.",
    ),
    key(
        "listen.tls-certificate",
        "listen-tls-certificate",
        Kind::Text,
        "",
        "/etc/fleetwright/tls/tls.crt",
        "This server's certificate chain (PEM), for both addresses. Read again when it changes. Absent: connections are not encrypted.",
    ),
    key(
        "listen.tls-key",
        "listen-tls-key",
        Kind::Text,
        "",
        "/etc/fleetwright/tls/tls.key",
        "Key of the certificate (PEM). Read again when it changes.",
    ),
    key(
        "listen.client-ca",
        "listen-client-ca",
        Kind::Text,
        "",
        "/etc/fleetwright/tls/agents-ca.crt",
        "Authorities (PEM) that sign certificates of agents. Read again when it changes. Absent: agents show tokens.",
    ),
    key(
        "trust.file",
        "trust-file",
        Kind::Text,
        "",
        "/etc/fleetwright/trust.toml",
        "Which agents speak for which cluster, and which clients may do what; deploy/trust.toml is an example. Read again when it changes. Absent: everybody may do everything, on loopback only.",
    ),
    Key {
        secret: true,
        ..key(
            "store.database-url",
            "store-database-url",
            Kind::Text,
            "",
            "postgres://fleetwright@db.internal/fleetwright",
            "PostgreSQL that keeps leases, intents, decisions and everything else that survives a crash. Absent: the server runs a PostgreSQL of its own in store.data-dir. The environment variable DATABASE_URL is read as well.",
        )
    },
    key(
        "store.data-dir",
        "store-data-dir",
        Kind::Text,
        "/var/lib/fleetwright",
        "/srv/fleetwright",
        "Folder of the PostgreSQL that the server runs itself when it is given none. Needs the server programs of PostgreSQL on this machine; its socket is for the server's user alone.",
    ),
    key(
        "store.memory",
        "store-memory",
        Kind::Switch,
        "false",
        "true",
        "Without a database, keep everything in memory and lose it with the process, rather than run a PostgreSQL.",
    ),
    key(
        "store.migrate",
        "store-migrate",
        Kind::Switch,
        "true",
        "false",
        "Whether the server may bring the schema of its database up to date when it starts. Where it may not, it says which version it needs.",
    ),
    key(
        "store.connections",
        "store-connections",
        Kind::Number,
        "10",
        "20",
        "Connections to the database at most, for each replica.",
    ),
    key(
        "store.keep-log",
        "store-keep-log",
        Kind::Duration,
        "336h",
        "720h",
        "How long decisions and what they are replayed from are kept.",
    ),
    key(
        "store.keep-ended",
        "store-keep-ended",
        Kind::Duration,
        "24h",
        "72h",
        "How long launches, instructions and disruptions are kept after their end.",
    ),
    key(
        "store.keep-clusters",
        "store-keep-clusters",
        Kind::Duration,
        "2160h",
        "8760h",
        "How long the lease of a cluster is kept that no replica decides for, with what was left open under it. A cluster that comes back later begins anew: its machines are known by their NodeClaims.",
    ),
    key(
        "cloud.provider",
        "cloud-provider",
        Kind::Choice(&["simulated", "ec2"]),
        "simulated",
        "ec2",
        "Which cloud machines are bought from. `ec2` needs a program that was built with the cargo feature of that name; credentials come from where AWS tools look for them.",
    ),
    key(
        "cloud.account",
        "cloud-account",
        Kind::Text,
        "default",
        "123456789012",
        "The account that machines are bought in, as replicas on one database name it: those that name the same account and region share what its cloud lists and refuses. Replicas with credentials of different accounts need different names.",
    ),
    key(
        "cloud.region",
        "cloud-region",
        Kind::Text,
        "us-east-1",
        "eu-west-1",
        "The region that machines are bought in.",
    ),
    key(
        "cloud.catalogue",
        "cloud-catalogue",
        Kind::Text,
        "",
        "/etc/fleetwright/catalogue.json",
        "Machine types and prices in place of the built-in ones; the format is that of `fleetwright catalogue export`.",
    ),
    key(
        "cloud.endpoint",
        "cloud-endpoint",
        Kind::Text,
        "",
        "https://ec2.eu-west-1.api.aws",
        "Address of the EC2 API in place of the region's own, such as a VPC endpoint's.",
    ),
    key(
        "cloud.launch-template",
        "cloud-launch-template",
        Kind::Text,
        "",
        "fleetwright-nodes",
        "Name of the EC2 launch template that every machine is made from: image, security groups, instance profile, user data. EC2 needs it.",
    ),
    key(
        "cloud.launch-template-version",
        "cloud-launch-template-version",
        Kind::Text,
        "$Default",
        "7",
        "Version of the launch template: a number, $Default or $Latest.",
    ),
    key(
        "cloud.subnets",
        "cloud-subnets",
        Kind::Pairs,
        "",
        "us-east-1a=subnet-0a1b2c,us-east-1b=subnet-0d4e5f",
        "The subnet for the machines of each zone. EC2 needs it; machines are bought in no other zone.",
    ),
    key(
        "cloud.address",
        "cloud-address",
        Kind::Text,
        "",
        "http://127.0.0.1:7460",
        "Where a simulated cloud runs as a process of its own (`fleetwright simulated-cloud`); its machines outlive this server. Absent: the simulated cloud lives and dies with this process.",
    ),
    key(
        "cloud.seed",
        "cloud-seed",
        Kind::Number,
        "0",
        "42",
        "Seed of everything that the simulated cloud does by chance.",
    ),
    key(
        "cloud.boot",
        "cloud-boot",
        Kind::Duration,
        "3s",
        "30s",
        "How long a machine of the simulated cloud takes from launch to running.",
    ),
    key(
        "cloud.no-capacity",
        "cloud-no-capacity",
        Kind::Switch,
        "false",
        "true",
        "The simulated cloud refuses every launch for lack of capacity.",
    ),
    key(
        "control.batch-idle",
        "control-batch-idle",
        Kind::Duration,
        "1s",
        "500ms",
        "Pending pods are planned together; a batch closes when none has arrived for so long (Karpenter's BATCH_IDLE_DURATION).",
    ),
    key(
        "control.hold-after-foreign-scale-up",
        "control-hold-after-foreign-scale-up",
        Kind::Duration,
        "5m",
        "10m",
        "A pod for which Cluster Autoscaler says that it buys a node is left to it for so long, so that both do not buy for the same pod.",
    ),
    key(
        "control.batch-max",
        "control-batch-max",
        Kind::Duration,
        "10s",
        "5s",
        "A batch closes at the latest after so long (Karpenter's BATCH_MAX_DURATION).",
    ),
    key(
        "control.plan-pods",
        "control-plan-pods",
        Kind::Number,
        "5000",
        "10000",
        "Pods that one plan takes at most, by priority and then by age; the others are planned next, at once. 0 takes all.",
    ),
    key(
        "control.plan-steps",
        "control-plan-steps",
        Kind::Number,
        "200000000",
        "50000000",
        "Elementary steps that one plan may take, about 50 ns each; pods that it has not reached by then are planned next. 0 bounds nothing.",
    ),
    key(
        "control.preferred-terms",
        "control-preferred-terms",
        Kind::Number,
        "20",
        "64",
        "Preferences of one pod that are looked at, the heaviest first: preferred node and pod (anti-)affinity, ScheduleAnyway spread.",
    ),
    key(
        "control.collect-after",
        "control-collect-after",
        Kind::Duration,
        "60s",
        "30s",
        "How long a machine that nobody has, or a NodeClaim whose machine is gone, must be seen as such before it is removed. 0s removes neither.",
    ),
    key(
        "control.open-together",
        "control-open-together",
        Kind::Duration,
        "10s",
        "0s",
        "How long a Node that is ready waits for the others of its decision, so that kube-scheduler binds pods where they were planned and no room is taken by pods of machines that come later. 0s opens every Node as soon as it is ready.",
    ),
    key(
        "control.preference-policy",
        "control-preference-policy",
        Kind::Choice(&["Respect", "Ignore"]),
        "Respect",
        "Ignore",
        "Whether soft constraints of pods are looked at (Karpenter's PREFERENCE_POLICY).",
    ),
    key(
        "control.min-values-policy",
        "control-min-values-policy",
        Kind::Choice(&["Strict", "BestEffort"]),
        "Strict",
        "BestEffort",
        "What happens when a pool's minValues cannot be met (Karpenter's MIN_VALUES_POLICY).",
    ),
    key(
        "rails.mode",
        "rails-mode",
        Kind::Choice(&["act", "shadow"]),
        "act",
        "shadow",
        "Whether decisions are carried out. `shadow` decides and writes down what would be done, and does nothing.",
    ),
    key(
        "rails.shadow-clusters",
        "rails-shadow-clusters",
        Kind::Text,
        "",
        "staging,payments-eu",
        "Clusters in shadow mode whatever rails.mode says, separated by commas.",
    ),
    key(
        "rails.quarantine-percent",
        "rails-quarantine-percent",
        Kind::Number,
        "50",
        "90",
        "An agent that loses more than this share of the pods, nodes, NodeClaims, NodePools or running machines at once, from one snapshot to the next or by unannounced removals, is not believed until another snapshot and a second witness agree or a person releases it. 0 believes everything.",
    ),
    key(
        "rails.quarantine-confirm",
        "rails-quarantine-confirm",
        Kind::Duration,
        "60s",
        "5m",
        "How long after a snapshot that is not believed another one is asked for.",
    ),
    key(
        "rails.quarantine-window",
        "rails-quarantine-window",
        Kind::Duration,
        "60s",
        "2m",
        "Removals without an announcement within this window are counted together. 0s believes each.",
    ),
    key(
        "rails.quarantine-hold-percent",
        "rails-quarantine-hold-percent",
        Kind::Number,
        "90",
        "70",
        "What an agent lost more than this share of is not believed because other snapshots and witnesses agree, but after rails.quarantine-hold, or when a person releases it.",
    ),
    key(
        "rails.quarantine-hold",
        "rails-quarantine-hold",
        Kind::Duration,
        "0s",
        "6h",
        "How long it is held. 0s: until a person releases it.",
    ),
    key(
        "rails.launch-window",
        "rails-launch-window",
        Kind::Duration,
        "10m",
        "5m",
        "The sliding window that bounds on launches speak of.",
    ),
    key(
        "rails.launches-per-cluster",
        "rails-launches-per-cluster",
        Kind::Number,
        "500",
        "50",
        "Machines that may be launched for one cluster within the window; 0 for any number.",
    ),
    key(
        "rails.launches-per-fleet",
        "rails-launches-per-fleet",
        Kind::Number,
        "2000",
        "200",
        "Machines that may be launched for all clusters within the window, whichever replicas decide for them; 0 for any number.",
    ),
    key(
        "rails.launch-dollars-per-cluster",
        "rails-launch-dollars-per-cluster",
        Kind::Number,
        "1000",
        "100",
        "What the machines launched for one cluster within the window may cost together, in dollars an hour; 0 for any amount.",
    ),
    key(
        "rails.launch-dollars-per-fleet",
        "rails-launch-dollars-per-fleet",
        Kind::Number,
        "5000",
        "500",
        "What the machines launched for all clusters within the window may cost together, in dollars an hour; 0 for any amount.",
    ),
    key(
        "rails.removal-window",
        "rails-removal-window",
        Kind::Duration,
        "10m",
        "30m",
        "The sliding window that bounds on removals speak of. Machines that the cloud takes back or that people delete do not count.",
    ),
    key(
        "rails.removals-per-cluster",
        "rails-removals-per-cluster",
        Kind::Number,
        "200",
        "20",
        "Machines that may be removed from one cluster within the window; 0 for any number.",
    ),
    key(
        "rails.removals-per-fleet",
        "rails-removals-per-fleet",
        Kind::Number,
        "1000",
        "100",
        "Machines that may be removed from all clusters within the window, whichever replicas decide for them; 0 for any number.",
    ),
    key(
        "rails.removal-percent-per-cluster",
        "rails-removal-percent-per-cluster",
        Kind::Number,
        "50",
        "20",
        "Share of the machines of one cluster that may be removed within the window, in percent, though 10 always may; 0 for any share.",
    ),
    key(
        "rails.removal-percent-per-fleet",
        "rails-removal-percent-per-fleet",
        Kind::Number,
        "25",
        "10",
        "Share of all machines that may be removed within the window, in percent, though 50 always may; 0 for any share.",
    ),
    key(
        "rails.launches-per-pod",
        "rails-launches-per-pod",
        Kind::Number,
        "3",
        "5",
        "Machines that are launched for one pod without it ever being bound before further ones wait; 0 never waits.",
    ),
    key(
        "rails.pod-wait",
        "rails-pod-wait",
        Kind::Duration,
        "2m",
        "5m",
        "The first such wait. It doubles with every further machine, to one hour at most.",
    ),
    key(
        "rails.brake-percent",
        "rails-brake-percent",
        Kind::Number,
        "50",
        "30",
        "Nothing is removed of free will in the whole fleet while at least this share of its launches fails, whichever replicas decide for their clusters; 0 never stops removals.",
    ),
    key(
        "rails.brake-release-percent",
        "rails-brake-release-percent",
        Kind::Number,
        "20",
        "10",
        "Removals go on when at most this share of launches fails.",
    ),
    key(
        "rails.brake-window",
        "rails-brake-window",
        Kind::Duration,
        "10m",
        "5m",
        "How far back launches are looked at for the brake.",
    ),
    key(
        "rails.replacement-wait",
        "rails-replacement-wait",
        Kind::Duration,
        "15s",
        "30s",
        "How long the drain of a machine that has to go waits at most for the plan that gives its pods room; 0s drains at once.",
    ),
    key(
        "lease.owner",
        "lease-owner",
        Kind::Text,
        "",
        "fleetwright-0",
        "Name that this replica holds leases under. Absent: the machine's name and a part that stands for listen.grpc in this network until the machine starts anew (with port 0: for this process), so that any number of replicas share one file. A name must belong to one process at a time: a lease goes back at once to the name that held it, so that a server which is started again in its place does not wait for lease.duration.",
    ),
    key(
        "lease.duration",
        "lease-duration",
        Kind::Duration,
        "30s",
        "1m",
        "How long a cluster stays with a replica that does not renew its lease; it renews three times as often.",
    ),
    key(
        "session.memory",
        "session-memory",
        Kind::Number,
        "256",
        "512",
        "MiB that one cluster's objects may take in this server, by its own estimate of about 1 KiB for each pod. A session that would take more is ended, and its agent told.",
    ),
    key(
        "session.memory-total",
        "session-memory-total",
        Kind::Number,
        "0",
        "4096",
        "MiB that the objects of all clusters may take. A session that takes more than its even share is ended beyond it. 0: half of the memory that this process may use.",
    ),
    key(
        "shutdown.grace",
        "shutdown-grace",
        Kind::Duration,
        "10s",
        "30s",
        "How long connections may take to end when the server is told to stop.",
    ),
    key(
        "log.filter",
        "log-filter",
        Kind::Text,
        "info",
        "fleetwright=debug,info",
        "What is logged on standard error: levels by module, as RUST_LOG writes them.",
    ),
    key("log.format", "log-format", Kind::Choice(&["text", "json"]), "text", "json", "How log lines are written."),
    key(
        "trace.collector",
        "trace-collector",
        Kind::Text,
        "",
        "http://127.0.0.1:4317",
        "Where traces go, by OTLP over gRPC: one for each decision that buys, from its first pod to the machines' ids. Absent: none are made. The environment variable OTEL_EXPORTER_OTLP_ENDPOINT is read as well, and so are the others that OpenTelemetry defines (service name, headers, sampler).",
    ),
];

/// The key of this path.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}
