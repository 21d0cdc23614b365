//! The keys: name, type, default, meaning, example. Nothing about a key is written anywhere else.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, value_parser};

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// Path of a file.
    File,
    /// A number with a unit: `500ms`, `10s`, `2m`.
    Duration,
    /// A whole number.
    Count,
    /// `true` or `false`.
    Switch,
}

/// One thing that can be set.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `table.key` in the file.
    pub path: &'static str,
    /// The flag without its dashes. The environment variable is `FLEETWRIGHT_AGENT_` and the flag in capitals.
    pub flag: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// The value when nobody says otherwise; empty means absent.
    pub default: &'static str,
    /// A value as one would write it.
    pub example: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

impl Key {
    /// The environment variable that sets it.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("FLEETWRIGHT_AGENT_{}", self.flag.replace('-', "_").to_uppercase())
    }
}

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
        "server",
        Kind::Text,
        "",
        "https://fleetwright.internal:7450",
        "The server, as http://host:port or https://host:port.",
    ),
    key(
        "server.ca-file",
        "ca-file",
        Kind::File,
        "",
        "/etc/fleetwright/ca.pem",
        "Certificates (PEM) of the authorities that may vouch for an https server; these and no others are believed.",
    ),
    key(
        "server.token-file",
        "token-file",
        Kind::File,
        "",
        "/var/run/secrets/fleetwright/token",
        "Bearer token that the agent shows the server, such as a projected service-account token. Read again for every connection.",
    ),
    key(
        "server.client-certificate",
        "client-certificate",
        Kind::File,
        "",
        "/etc/fleetwright/tls.crt",
        "Certificate (PEM) that the agent shows the server. Read again for every connection.",
    ),
    key(
        "server.client-key",
        "client-key",
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
        "region",
        Kind::Text,
        "",
        "us-east-1",
        "Cloud region that this cluster's nodes are launched in.",
    ),
    key(
        "kubernetes.kubeconfig",
        "kubeconfig",
        Kind::File,
        "",
        "/etc/fleetwright/kubeconfig",
        "How to reach the API server. Absent: the service account of the pod that the agent runs in; outside of a cluster, the file that KUBECONFIG names, or ~/.kube/config.",
    ),
    key(
        "kubernetes.context",
        "context",
        Kind::Text,
        "",
        "production-1",
        "Context of the kubeconfig. Absent: its current one.",
    ),
    key(
        "kubernetes.namespace",
        "namespace",
        Kind::Text,
        "",
        "fleetwright",
        "Namespace of the agent's Leases. Absent: the one that the service account or the kubeconfig's context names.",
    ),
    key(
        "kubernetes.lease",
        "lease",
        Kind::Text,
        "fleetwright-agent",
        "fleetwright-agent",
        "Lease by which replicas of the agent agree on one that works; the highest epoch is kept in the Lease of this name with -epoch behind it.",
    ),
    key(
        "kubernetes.lease-duration",
        "lease-duration",
        Kind::Duration,
        "15s",
        "15s",
        "How long a replica that is gone keeps the others waiting. A replica that cannot renew its lease for two thirds of this stops.",
    ),
    key(
        "kubernetes.identity",
        "identity",
        Kind::Text,
        "",
        "fleetwright-agent-0",
        "Name of this replica, unlike that of any other that runs. Absent: the host's name, which in a pod is the pod's.",
    ),
    key(
        "kubernetes.streaming-lists",
        "streaming-lists",
        Kind::Switch,
        "true",
        "false",
        "Whether the API server is asked to stream what is there. Without, or where it does not do so, the agent lists in pages: it takes more of the API server's memory.",
    ),
    key(
        "agent.karpenter-absent",
        "karpenter-absent",
        Kind::Switch,
        "false",
        "true",
        "A person says that no Karpenter is at work in this cluster, whatever the agent finds: NodeClaims are made then. Beside a live Karpenter each would be bought twice. The server writes it into its audit.",
    ),
    key(
        "agent.probe-address",
        "probe-address",
        Kind::Text,
        "",
        "0.0.0.0:7460",
        "Where /healthz and /readyz are answered over HTTP, for the kubelet. Absent: nowhere.",
    ),
    key(
        "guard.removals",
        "guard-removals",
        Kind::Count,
        "1000",
        "200",
        "The agent begins to drain, or deletes, at most this many Nodes in guard.window, whatever a server says; the rest wait. Nodes that the cloud takes away and Nodes that are not Ready do not count. Keep it at or above the server's rails.removals-per-cluster; 0 sets no bound.",
    ),
    key("guard.window", "guard-window", Kind::Duration, "10m", "10m", "The time that guard.removals is for."),
    key(
        "log.filter",
        "log",
        Kind::Text,
        "info",
        "info,agent_kubernetes=debug",
        "What to log, such as info or agent_kubernetes=debug.",
    ),
    key("log.format", "log-format", Kind::Text, "text", "json", "How to log: text or json."),
];

/// The key of this path.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The command line: a flag for every key.
pub(super) fn command() -> Command {
    let mut command = Command::new("fleetwright-agent")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Speaks for one cluster and carries out what the server decides.")
        .after_help(
            "A flag outweighs its environment variable (FLEETWRIGHT_AGENT_ and the flag in capitals), a variable the file.",
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
                .help("Print the settings that result, and where each comes from, and end"),
        );
    for key in KEYS {
        let default = if key.default.is_empty() { String::new() } else { format!(" [default: {}]", key.default) };
        let name = match key.kind {
            Kind::Text => "TEXT",
            Kind::File => "FILE",
            Kind::Duration => "DURATION",
            Kind::Count => "NUMBER",
            Kind::Switch => "BOOLEAN",
        };
        let help = format!("{} ({}){default}", key.meaning, key.path);
        command = command.arg(Arg::new(key.path).long(key.flag).value_name(name).help(help));
    }
    command
}
