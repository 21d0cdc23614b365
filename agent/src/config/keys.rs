//! The keys: name, type, default, example, meaning. No other module has data about a key.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, value_parser};
use settings::ValueType::{Address, Boolean, Choice, Duration, File, Number, Text};
use settings::{Key, Schema, keys};

/// Prefix of the agent's environment variables.
const PREFIX: &str = "FLEETWRIGHT_AGENT_";
/// Environment variable that names the configuration file; it is no key.
pub(super) const FILE_VARIABLE: &str = "FLEETWRIGHT_AGENT_CONFIG";
/// Id of `--config`.
pub(super) const FILE: &str = "config";
/// Id of `--print-config`.
pub(super) const PRINT: &str = "print-config";

/// The agent's keys. Flags were not derived from keys once: those of that time are accepted.
pub const SCHEMA: Schema = Schema {
    keys: KEYS,
    prefix: PREFIX,
    other_variables: &[FILE_VARIABLE],
    external_variables: &[],
    former_flags: &[
        ("server.address", "server"),
        ("server.ca-file", "ca-file"),
        ("server.token-file", "token-file"),
        ("server.client-certificate", "client-certificate"),
        ("server.client-key", "client-key"),
        ("cluster.region", "region"),
        ("kubernetes.kubeconfig", "kubeconfig"),
        ("kubernetes.context", "context"),
        ("kubernetes.namespace", "namespace"),
        ("kubernetes.lease", "lease"),
        ("kubernetes.lease-duration", "lease-duration"),
        ("kubernetes.identity", "identity"),
        ("kubernetes.streaming-lists", "streaming-lists"),
        ("agent.karpenter-absent", "karpenter-absent"),
        ("agent.probe-address", "probe-address"),
        ("log.filter", "log"),
    ],
    renamed: &[],
    permits_quotes: true,
    all_keys: "`fleetwright-agent --help`",
};

/// Every key, by table: type, default (empty: unset), example, help.
pub const KEYS: &[Key] = keys! {
    PREFIX;
    ["server"]
    "address": Text, "", "https://fleetwright.internal:7450",
        "The server, as http://host:port or https://host:port.";
    "ca-file": File, "", "/etc/fleetwright/ca.pem",
        "CA certificates (PEM) for an https server; no other authority is trusted.";
    "token-file": File, "", "/var/run/secrets/fleetwright/token",
        "Bearer token that the agent sends to the server, such as a projected service account token. Read again for every connection.";
    "client-certificate": File, "", "/etc/fleetwright/tls.crt",
        "Client certificate (PEM) that the agent presents to the server. Read again for every connection.";
    "client-key": File, "", "/etc/fleetwright/tls.key",
        "Key (PEM) of server.client-certificate.";

    ["cluster"]
    "name": Text, "", "production-1",
        "Name of this cluster, unique in the fleet: 1 to 100 letters, digits, '-', '_' and '.'.";
    "region": Text, "", "us-east-1",
        "Cloud region that this cluster's nodes are launched in.";
    "api-endpoint": Text, "", "https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com",
        "URL of the API server, as this cluster's nodes reach it, for the user data of new nodes. Default: the one in the ConfigMap kube-public/cluster-info, else the one of the kubeconfig. The address of the Service that the agent's pod uses is no default: set this on EKS.";
    "api-ca-file": File, "", "/etc/fleetwright/kubernetes-ca.pem",
        "CA certificates (PEM) of the API server, for the user data of new nodes. Read again for every connection. Default: those by which the agent verifies the API server.";
    "service-cidr": Text, "", "10.100.0.0/16",
        "Range of the addresses of Services, for the user data of new nodes. Default: the ServiceCIDR kubernetes, which API servers have from version 1.33 on.";

    ["kubernetes"]
    "kubeconfig": File, "", "/etc/fleetwright/kubeconfig",
        "Kubeconfig for the API server. Default: the service account of the agent's pod; outside a cluster, the file in KUBECONFIG, or ~/.kube/config.";
    "context": Text, "", "production-1",
        "Context of the kubeconfig. Default: its current context.";
    "namespace": Text, "", "fleetwright-system",
        "Namespace of the agent's Leases, in which the agent's Role must be. Default: that of the service account or of the kubeconfig's context, else fleetwright-system.";
    "lease": Text, "fleetwright-agent", "fleetwright-agent",
        "Lease for leader election between replicas of the agent; the highest epoch is stored in the Lease of this name with the suffix -epoch.";
    "lease-duration": Duration, "15s", "15s",
        "Duration of the leader lease: how long other replicas wait for a failed one. A replica that cannot renew its lease for two thirds of this stops.";
    "identity": Text, "", "fleetwright-agent-0",
        "Name of this replica in its Lease and in events; the agent appends a random part, so that two processes with one name differ. Default: the host name, which in a pod is the pod's name.";
    "streaming-lists": Boolean, "true", "false",
        "Whether to use streaming lists (sendInitialEvents). Without them, or where the API server does not support them, the agent lists in pages, which costs the API server more memory.";

    ["agent"]
    "karpenter-absent": Boolean, "false", "true",
        "States that no Karpenter is active in this cluster, whatever the agent detects, so that NodeClaims are created. Beside an active Karpenter each would be launched twice. The server records it in the audit log.";
    "probe-address": Address, "", "0.0.0.0:7460",
        "Address of the HTTP endpoints /healthz and /readyz for the kubelet. Default: none.";

    ["guard"]
    "removals": Number, "1000", "200",
        "Maximum number of Nodes that the agent begins to drain or deletes within guard.window, whatever the server requests; the rest wait. Interruptions and Nodes that are not Ready do not count. Keep it at or above the server's guardrails.removals-per-cluster; 0 disables the limit.";
    "window": Duration, "10m", "10m",
        "Time window of guard.removals.";

    ["log"]
    "filter": Text, "info", "info,agent_kubernetes=debug",
        "What to log: a level (off, error, warn, info, debug, trace), or levels by module.";
    "format": Choice("text|json"), "text", "json",
        "Format of log lines.";
};

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
        let flag = Arg::new(key.path).long(key.flag).value_name(key.kind.placeholder()).help(key.flag_help());
        command = command.arg(flag.aliases(SCHEMA.former_flags_of(key.path)));
    }
    command
}
