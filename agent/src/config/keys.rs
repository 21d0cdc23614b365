//! The keys: name, type, default, meaning, example. No other module has data about a key.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, value_parser};

use super::former;

/// Value type of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string without further syntax.
    Text,
    /// Path of a file.
    File,
    /// An IP address and a port.
    Address,
    /// A whole number with a unit: `500ms`, `10s`, `2m`, `1h`, `1d`.
    Duration,
    /// A whole number.
    Count,
    /// `true` or `false`.
    Switch,
    /// `text` or `json`.
    LogFormat,
}

impl Kind {
    /// Name of the type in the help.
    fn name(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::File => "FILE",
            Self::Address => "ADDRESS",
            Self::Duration => "DURATION",
            Self::Count => "NUMBER",
            Self::Switch => "BOOLEAN",
            Self::LogFormat => "text|json",
        }
    }
}

/// One configuration key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `table.key` in the file.
    pub path: &'static str,
    /// The flag without its dashes: `table-key`. The environment variable is
    /// `FLEETWRIGHT_AGENT_TABLE_KEY`.
    pub flag: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Default value; empty means unset.
    pub default: &'static str,
    /// An example value.
    pub example: &'static str,
    /// The effect of the key.
    pub meaning: &'static str,
}

impl Key {
    /// The environment variable that sets it.
    #[must_use]
    pub fn variable(&self) -> String {
        variable_of(self.flag)
    }
}

/// The environment variable of a flag.
pub(super) fn variable_of(flag: &str) -> String {
    format!("{PREFIX}{}", flag.replace('-', "_").to_uppercase())
}

/// Prefix of the agent's environment variables.
pub(super) const PREFIX: &str = "FLEETWRIGHT_AGENT_";
/// Environment variable that names the configuration file; it is no key.
pub(super) const FILE_VARIABLE: &str = "FLEETWRIGHT_AGENT_CONFIG";
/// Id of `--config`.
pub(super) const FILE: &str = "config";
/// Id of `--print-config`.
pub(super) const PRINT: &str = "print-config";

const fn key(
    path: &'static str,
    flag: &'static str,
    kind: Kind,
    default: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key {
    Key { path, flag, kind, default, example, meaning }
}

/// Every key, by table.
pub const KEYS: &[Key] = &[
    key(
        "server.address",
        "server-address",
        Kind::Text,
        "",
        "https://fleetwright.internal:7450",
        "The server, as http://host:port or https://host:port.",
    ),
    key(
        "server.ca-file",
        "server-ca-file",
        Kind::File,
        "",
        "/etc/fleetwright/ca.pem",
        "CA certificates (PEM) for an https server; no other authority is trusted.",
    ),
    key(
        "server.token-file",
        "server-token-file",
        Kind::File,
        "",
        "/var/run/secrets/fleetwright/token",
        "Bearer token that the agent sends to the server, such as a projected service account token. Read again for every connection.",
    ),
    key(
        "server.client-certificate",
        "server-client-certificate",
        Kind::File,
        "",
        "/etc/fleetwright/tls.crt",
        "Client certificate (PEM) that the agent presents to the server. Read again for every connection.",
    ),
    key(
        "server.client-key",
        "server-client-key",
        Kind::File,
        "",
        "/etc/fleetwright/tls.key",
        "Key (PEM) of server.client-certificate.",
    ),
    key(
        "cluster.name",
        "cluster-name",
        Kind::Text,
        "",
        "production-1",
        "Name of this cluster, unique in the fleet: 1 to 100 letters, digits, '-', '_' and '.'.",
    ),
    key(
        "cluster.region",
        "cluster-region",
        Kind::Text,
        "",
        "us-east-1",
        "Cloud region that this cluster's nodes are launched in.",
    ),
    key(
        "cluster.api-endpoint",
        "cluster-api-endpoint",
        Kind::Text,
        "",
        "https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com",
        "URL of the API server, as this cluster's nodes reach it, for the user data of new nodes. Default: the one in the ConfigMap kube-public/cluster-info, else the one of the kubeconfig. The address of the Service that the agent's pod uses is no default: set this on EKS.",
    ),
    key(
        "cluster.api-ca-file",
        "cluster-api-ca-file",
        Kind::File,
        "",
        "/etc/fleetwright/kubernetes-ca.pem",
        "CA certificates (PEM) of the API server, for the user data of new nodes. Read again for every connection. Default: those by which the agent verifies the API server.",
    ),
    key(
        "cluster.service-cidr",
        "cluster-service-cidr",
        Kind::Text,
        "",
        "10.100.0.0/16",
        "Range of the addresses of Services, for the user data of new nodes. Default: the ServiceCIDR kubernetes, which API servers have from version 1.33 on.",
    ),
    key(
        "kubernetes.kubeconfig",
        "kubernetes-kubeconfig",
        Kind::File,
        "",
        "/etc/fleetwright/kubeconfig",
        "Kubeconfig for the API server. Default: the service account of the agent's pod; outside a cluster, the file in KUBECONFIG, or ~/.kube/config.",
    ),
    key(
        "kubernetes.context",
        "kubernetes-context",
        Kind::Text,
        "",
        "production-1",
        "Context of the kubeconfig. Default: its current context.",
    ),
    key(
        "kubernetes.namespace",
        "kubernetes-namespace",
        Kind::Text,
        "",
        "fleetwright-system",
        "Namespace of the agent's Leases, in which the agent's Role must be. Default: that of the service account or of the kubeconfig's context, else fleetwright-system.",
    ),
    key(
        "kubernetes.lease",
        "kubernetes-lease",
        Kind::Text,
        "fleetwright-agent",
        "fleetwright-agent",
        "Lease for leader election between replicas of the agent; the highest epoch is stored in the Lease of this name with the suffix -epoch.",
    ),
    key(
        "kubernetes.lease-duration",
        "kubernetes-lease-duration",
        Kind::Duration,
        "15s",
        "15s",
        "Duration of the leader lease: how long other replicas wait for a failed one. A replica that cannot renew its lease for two thirds of this stops.",
    ),
    key(
        "kubernetes.identity",
        "kubernetes-identity",
        Kind::Text,
        "",
        "fleetwright-agent-0",
        "Name of this replica in its Lease and in events; the agent appends a random part, so that two processes with one name differ. Default: the host name, which in a pod is the pod's name.",
    ),
    key(
        "kubernetes.streaming-lists",
        "kubernetes-streaming-lists",
        Kind::Switch,
        "true",
        "false",
        "Whether to use streaming lists (sendInitialEvents). Without them, or where the API server does not support them, the agent lists in pages, which costs the API server more memory.",
    ),
    key(
        "agent.karpenter-absent",
        "agent-karpenter-absent",
        Kind::Switch,
        "false",
        "true",
        "States that no Karpenter is active in this cluster, whatever the agent detects, so that NodeClaims are created. Beside an active Karpenter each would be launched twice. The server records it in the audit log.",
    ),
    key(
        "agent.probe-address",
        "agent-probe-address",
        Kind::Address,
        "",
        "0.0.0.0:7460",
        "Address of the HTTP endpoints /healthz and /readyz for the kubelet. Default: none.",
    ),
    key(
        "guard.removals",
        "guard-removals",
        Kind::Count,
        "1000",
        "200",
        "Maximum number of Nodes that the agent begins to drain or deletes within guard.window, whatever the server requests; the rest wait. Interruptions and Nodes that are not Ready do not count. Keep it at or above the server's guardrails.removals-per-cluster; 0 disables the limit.",
    ),
    key("guard.window", "guard-window", Kind::Duration, "10m", "10m", "Time window of guard.removals."),
    key(
        "log.filter",
        "log-filter",
        Kind::Text,
        "info",
        "info,agent_kubernetes=debug",
        "What to log: a level (off, error, warn, info, debug, trace), or levels by module.",
    ),
    key("log.format", "log-format", Kind::LogFormat, "text", "json", "Format of log lines."),
];

/// The key of this path.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The command line: a flag for every key.
pub(super) fn command() -> Command {
    let mut command = Command::new("fleetwright-agent")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Connects one cluster to a Fleetwright server and executes its instructions.")
        .after_help(
            "A flag overrides the environment variable of its setting, a variable overrides the configuration file. Values of \
             type DURATION are whole numbers with a unit: 500ms, 10s, 2m, 1h, 1d.",
        )
        .arg(
            Arg::new(FILE)
                .long("config")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help(format!("Configuration file (TOML) [env: {FILE_VARIABLE}]")),
        )
        .arg(
            Arg::new(PRINT)
                .long(PRINT)
                .action(ArgAction::SetTrue)
                .help("Print the effective settings and their origins, and exit"),
        );
    // Flags have no defaults here: a default must not override the environment or the file.
    for key in KEYS {
        let default = if key.default.is_empty() { String::new() } else { format!(" [default: {}]", key.default) };
        let help = format!("{} [key: {}] [env: {}]{default}", key.meaning, key.path, key.variable());
        let flag = Arg::new(key.path).long(key.flag).value_name(key.kind.name()).help(help);
        command = command.arg(flag.aliases(former::flags(key.path)));
    }
    command
}
