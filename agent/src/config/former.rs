//! Flags that keys had before flags were derived from keys. They and their environment variables are
//! accepted, and no help lists them.

/// Keys and their former flags.
const FORMER_FLAGS: [(&str, &str); 16] = [
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
];

/// The former flags of the key with this path.
pub(super) fn flags(path: &'static str) -> impl Iterator<Item = &'static str> {
    FORMER_FLAGS.iter().filter(move |(of, _)| *of == path).map(|(_, flag)| *flag)
}
