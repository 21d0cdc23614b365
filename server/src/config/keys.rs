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
        "Where agents and programs connect (gRPC). Loopback unless said otherwise: the connection is neither encrypted nor authenticated.",
    ),
    key(
        "listen.http",
        "listen-http",
        Kind::Address,
        "127.0.0.1:7480",
        "127.0.0.1:0",
        "Where the live page, /metrics, /healthz and /readyz are served.",
    ),
    Key {
        secret: true,
        ..key(
            "store.database-url",
            "store-database-url",
            Kind::Text,
            "",
            "postgres://fleetwright@db.internal/fleetwright",
            "PostgreSQL that keeps leases, intents and decisions. Absent: everything is kept in memory and lost with the process. The environment variable DATABASE_URL is read as well.",
        )
    },
    key(
        "cloud.provider",
        "cloud-provider",
        Kind::Choice(&["simulated", "ec2"]),
        "simulated",
        "ec2",
        "Which cloud machines are bought from. `ec2` needs a program that was built with the cargo feature of that name; credentials come from where AWS tools look for them.",
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
        "control.batch-max",
        "control-batch-max",
        Kind::Duration,
        "10s",
        "5s",
        "A batch closes at the latest after so long (Karpenter's BATCH_MAX_DURATION).",
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
        "lease.owner",
        "lease-owner",
        Kind::Text,
        "fleetwright-0",
        "fleetwright-1",
        "Name of this replica; every replica on one database needs its own.",
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
];

/// The key of this path.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}
