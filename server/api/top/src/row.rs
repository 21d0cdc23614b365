//! The rows: clusters, nodes and pods as the API has them.

/// The id at a place of a resource's name: `clusters/0/nodes/1`.
pub(crate) fn id(name: &str, index: usize) -> &str {
    name.split('/').nth(2 * index + 1).unwrap_or_default()
}

pub(crate) trait Row {
    /// Name of the resource, `clusters/prod/nodes/a`; different for each row.
    fn name(&self) -> &str;

    /// The texts that words of a filter are searched in, with spaces between them.
    fn searched_text(&self) -> String;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// `clusters/{cluster}`.
    pub name: String,
    /// Nodes, of any manager.
    pub nodes: u32,
    /// Pods that have not ended.
    pub pods: u32,
    /// Pods of these for which an instance may be launched.
    pub pending_pods: u32,
    /// What its machines cost an hour, in micro-dollars.
    pub price_micro_usd: i64,
    /// No replica that answers decides for the cluster now: what is shown is old.
    pub is_stale: bool,
    pub is_connected: bool,
    /// Whether a complete snapshot of the agent has been accepted.
    pub is_synced: bool,
    /// When this was observed, in milliseconds since 1970.
    pub observed_ms: Option<i64>,
    /// The replica that decides for the cluster, or did last.
    pub replica: String,
    pub agent_version: String,
    /// Why no decisions are made for it; empty when they are.
    pub blocked_reason: String,
}

impl Cluster {
    /// What the connection to the cluster is, as `fleetwright fleet clusters` says it.
    pub(crate) fn connection(&self) -> &'static str {
        match self {
            cluster if cluster.is_stale => "stale",
            cluster if !cluster.is_connected => "disconnected",
            cluster if !cluster.is_synced => "syncing",
            _ => "connected",
        }
    }
}

impl Row for Cluster {
    fn name(&self) -> &str {
        &self.name
    }

    fn searched_text(&self) -> String {
        [id(&self.name, 0), self.connection(), &self.replica, &self.agent_version, &self.blocked_reason].join(" ")
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// A node that Fleetwright does not manage, and that is not ready.
    NotReady,
    /// On its way out.
    Draining,
    /// Requested; no instance yet.
    Launching,
    /// Launched; the node has not joined.
    Booting,
    /// The node has registered and is not in service yet.
    Registered,
    /// In service.
    Ready,
    /// Not known.
    #[default]
    Unknown,
}

impl Stage {
    /// The state in at most eight characters: the states before service are one.
    pub(crate) fn short_name(self) -> &'static str {
        match self {
            Self::Launching | Self::Booting | Self::Registered => "Starting",
            other => other.full_name(),
        }
    }

    pub(crate) fn full_name(self) -> &'static str {
        match self {
            Self::NotReady => "NotReady",
            Self::Draining => "Draining",
            Self::Launching => "Launching",
            Self::Booting => "Booting",
            Self::Registered => "Registered",
            Self::Ready => "Ready",
            Self::Unknown => "Unknown",
        }
    }

    /// Whether a Node object exists, whose pods request what it has.
    pub(crate) fn has_joined(self) -> bool {
        !matches!(self, Self::Launching | Self::Booting | Self::Unknown)
    }
}

/// A node, or a machine on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// `clusters/{cluster}/nodes/{node}`: the name of the NodeClaim, or of the Node of another manager.
    pub name: String,
    /// Name of the Node; empty before it joins.
    pub node: String,
    /// NodeClaim; empty for a node that Fleetwright does not manage.
    pub node_claim: String,
    /// NodePool; empty for a node that Fleetwright does not manage.
    pub pool: String,
    pub instance_type: String,
    pub zone: String,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: String,
    pub stage: Stage,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// What it costs an hour, in micro-dollars; 0 when that is not known.
    pub price_micro_usd: i64,
    /// Pods on it, those of DaemonSets apart.
    pub pods: u32,
    /// Requests of its pods in millicores.
    pub cpu_requested_millis: i64,
    /// Millicores that pods can use.
    pub cpu_allocatable_millis: i64,
    /// Requests of its pods in bytes.
    pub memory_requested_bytes: i64,
    /// Bytes that pods can use.
    pub memory_allocatable_bytes: i64,
    /// Why it is removed; empty while it stays.
    pub removal_reason: String,
    /// What blocks its drain; empty when nothing does.
    pub drain_blocked_reason: String,
}

impl Node {
    /// The name that is shown: that of the Node, or of the NodeClaim before it joins.
    pub(crate) fn shown_name(&self) -> &str {
        if self.node.is_empty() { id(&self.name, 1) } else { &self.node }
    }
}

impl Row for Node {
    fn name(&self) -> &str {
        &self.name
    }

    fn searched_text(&self) -> String {
        let (short, full) = (self.stage.short_name(), self.stage.full_name());
        let (cluster, node) = (id(&self.name, 0), self.shown_name());
        let texts = [cluster, node, &self.node_claim, &self.pool, &self.instance_type, &self.zone, &self.capacity_type];
        format!("{} {short} {full}", texts.join(" "))
    }
}

/// What becomes of a pod that waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodState {
    /// The last plan found no place for it.
    Unschedulable,
    /// It waits for the next plan.
    Waiting,
    /// It is planned on a node, or on a machine on its way.
    Planned,
    /// Not known.
    #[default]
    Unknown,
}

impl PodState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::Waiting => "Waiting",
            Self::Planned => "Planned",
            Self::Unknown => "Unknown",
        }
    }
}

/// A pod that waits for a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// `clusters/{cluster}/namespaces/{namespace}/pods/{pod}`.
    pub name: String,
    pub state: PodState,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// The Node or NodeClaim that it is planned on; empty without one.
    pub planned_node: String,
    /// Why it has no place; empty unless it is unschedulable.
    pub reasons: String,
    /// Request in millicores.
    pub cpu_millis: i64,
    /// Request in bytes.
    pub memory_bytes: i64,
}

impl Row for Pod {
    fn name(&self) -> &str {
        &self.name
    }

    fn searched_text(&self) -> String {
        let [cluster, namespace, pod] = [0, 1, 2].map(|index| id(&self.name, index));
        [cluster, namespace, pod, self.state.name(), &self.planned_node, &self.reasons].join(" ")
    }
}
