//! The port: what Fleetwright asks of a cloud, in the cloud's terms and without its SDK.
//!
//! The semantics are those of an EC2 Fleet of type `instant`: one capacity type a request, up to [`MAX_OVERRIDES`] pairs
//! of instance type and zone, one machine. A token names the request: the same token with the same request gives the
//! same machine, with another request it is refused. The listing may lag behind launches and terminations.

use std::fmt;
use std::future::Future;

use engine::control::{LaunchFailure, LaunchOrder};
use engine::model::{CapacityType, Text, Timestamp};

/// Pairs of instance type and zone in one request. A Fleet takes 300; beyond this many the options only cost API time
/// (Karpenter's AWS provider sends as many).
pub const MAX_OVERRIDES: usize = 60;

/// One machine, please.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaunchRequest {
    /// Names the request: at most one machine comes of it, however often it is sent.
    pub token: Text,
    /// Cluster, for the machine's tags.
    pub cluster: Text,
    /// UID of the cluster, for the machine's tags: two clusters may have had one name. Empty when it is not known.
    pub cluster_uid: Text,
    /// NodeClaim, for the machine's tags.
    pub claim: Text,
    /// NodePool, for the machine's tags.
    pub pool: Text,
    /// EC2NodeClass: image, subnets, security groups, user data.
    pub node_class: Text,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Ways to fill the request, best first; 1 to [`MAX_OVERRIDES`].
    pub overrides: Vec<Override>,
    /// The capacity reservation to draw on.
    pub reservation: Option<Text>,
    /// What [`CloudProvider::terms`] said when the order was written down; empty when it was not.
    pub terms: Text,
}

/// One way to fill a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Override {
    /// Instance type.
    pub instance_type: Text,
    /// Zone.
    pub zone: Text,
}

impl From<&LaunchOrder> for LaunchRequest {
    fn from(order: &LaunchOrder) -> Self {
        let overrides = order.options.iter().take(MAX_OVERRIDES);
        let overrides =
            overrides.map(|option| Override { instance_type: option.instance_type.clone(), zone: option.zone.clone() });
        Self {
            token: order.token.clone(),
            cluster: order.cluster.clone(),
            cluster_uid: order.cluster_uid.clone(),
            claim: order.claim.clone(),
            pool: order.pool.clone(),
            node_class: order.node_class.clone(),
            capacity_type: order.capacity_type,
            overrides: overrides.collect(),
            reservation: order.reservation.clone(),
            terms: order.terms.clone(),
        }
    }
}

/// What came of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchOutcome {
    /// The machine.
    pub instance: Instance,
    /// Options that were tried before it and were not to be had.
    pub sold_out: Vec<Override>,
}

/// Where a machine stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InstanceState {
    /// Bought, not up yet.
    Pending,
    /// Up.
    Running,
    /// Going down.
    ShuttingDown,
    /// Gone.
    Terminated,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Instance id.
    pub id: Text,
    /// `aws:///<zone>/<instance id>`.
    pub provider_id: Text,
    /// Instance type.
    pub instance_type: Text,
    /// Zone.
    pub zone: Text,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Where it stands in its life.
    pub state: InstanceState,
    /// Tag: cluster.
    pub cluster: Text,
    /// Tag: UID of the cluster; empty when the machine has none.
    pub cluster_uid: Text,
    /// Tag: NodeClaim.
    pub claim: Text,
    /// Tag: NodePool.
    pub pool: Text,
    /// When it was bought.
    pub launched: Timestamp,
}

/// The instance id in a provider id: what follows the last `/`.
#[must_use]
pub fn instance_id(provider_id: &str) -> &str {
    provider_id.rsplit('/').next().unwrap_or(provider_id)
}

/// Why a cloud did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// None of the options is to be had. No machine was bought.
    #[error("the cloud has no capacity for any of {} options ({})", .sold_out.len(), list(.sold_out))]
    NoCapacity {
        /// What was tried.
        sold_out: Vec<Override>,
    },
    /// Too many calls. Nothing was done; the same request may be sent again.
    #[error("the cloud asks to call less often; the request may be sent again after {retry_after_ms} ms")]
    RequestLimitExceeded {
        /// When, at the earliest, in milliseconds.
        retry_after_ms: i64,
    },
    /// The token was used for another request, and no machine of that one is to be found. It may still have bought one, so the
    /// NodeClaim gets no further attempt; a machine that shows up later is collected.
    #[error(
        "the token {token} was used with other parameters before, and the cloud lists no machine that came of that call"
    )]
    IdempotentParameterMismatch {
        /// The token.
        token: Text,
    },
    /// There is no such machine (any more).
    #[error("the cloud knows no instance {id}")]
    NotFound {
        /// Instance id.
        id: Text,
    },
    /// The machine is another cluster's, or nobody's of ours. It was left alone.
    #[error("instance {id} belongs to {}, not to cluster {asked:?}: it is left alone", whose(.owner))]
    Foreign {
        /// Instance id.
        id: Text,
        /// The cluster that its tag names, with its UID when only that tells the two apart; empty when it has none.
        owner: Text,
        /// The cluster for which it was to be given back, likewise.
        asked: Text,
    },
    /// The answer did not come. Whether anything was done is unknown; the same request must be sent again.
    #[error("no answer from the cloud to {operation}; the same request must be sent again to learn what came of it")]
    Unknown {
        /// What was asked.
        operation: Text,
    },
    /// The cloud refuses the request as it is.
    #[error("the cloud refuses {operation}: {code}: {message}")]
    Refused {
        /// What was asked.
        operation: Text,
        /// The cloud's code.
        code: Text,
        /// The cloud's words.
        message: String,
    },
}

fn whose(owner: &str) -> String {
    if owner.is_empty() { "no cluster of ours".to_owned() } else { format!("cluster {owner:?}") }
}

fn list(options: &[Override]) -> String {
    options.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.instance_type, self.zone)
    }
}

impl CloudError {
    /// The failure as the controller learns it; `None` when the same request is to be sent again.
    #[must_use]
    pub fn as_launch_failure(&self) -> Option<LaunchFailure> {
        let refused = |code: &Text, retryable| LaunchFailure::Refused {
            code: code.clone(),
            message: self.to_string(),
            retryable,
        };
        match self {
            Self::NoCapacity { sold_out } => {
                let pair = |option: &Override| (option.instance_type.clone(), option.zone.clone());
                Some(LaunchFailure::NoCapacity { sold_out: sold_out.iter().map(pair).collect() })
            }
            Self::IdempotentParameterMismatch { .. } => {
                Some(refused(&Text::from("IdempotentParameterMismatch"), false))
            }
            Self::NotFound { .. } => Some(refused(&Text::from("NotFound"), false)),
            Self::Foreign { .. } => Some(refused(&Text::from("Foreign"), false)),
            Self::Refused { code, .. } => Some(refused(code, false)),
            Self::RequestLimitExceeded { .. } | Self::Unknown { .. } => None,
        }
    }
}

/// Something that happens to machines by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloudEvent {
    /// The machine is up and its kubelet may join.
    Running(Instance),
    /// The machine will be taken back.
    Interrupted {
        /// The machine.
        instance: Instance,
        /// When it goes down.
        at: Timestamp,
    },
    /// The machine is gone.
    Terminated(Instance),
}

/// A cluster, as machines are tagged with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'o> {
    /// Its name.
    pub cluster: &'o str,
    /// Its UID: a cluster that is built anew may have the name of one whose machines still run. Empty when it is not known.
    pub uid: &'o str,
}

impl Instance {
    /// Whether the machine is `asked`'s, by name and UID. A name alone proves nothing: it passes from cluster to cluster.
    ///
    /// # Errors
    /// [`CloudError::Foreign`] when its tags name another cluster, another one of that name, or none.
    pub fn owned_by(&self, asked: Owner<'_>) -> Result<(), CloudError> {
        let own = Owner { cluster: &self.cluster, uid: &self.cluster_uid };
        let named = own.cluster == asked.cluster && !asked.cluster.is_empty();
        if named && own.uid == asked.uid && !own.uid.is_empty() {
            return Ok(());
        }
        let tell = |owner: Owner<'_>| {
            let Owner { cluster, uid } = owner;
            if named { Text::from(format!("{cluster} (UID {uid})")) } else { Text::from(cluster) }
        };
        Err(CloudError::Foreign { id: self.id.clone(), owner: tell(own), asked: tell(asked) })
    }
}

/// A cloud. Calls may be made by several tasks at once.
pub trait CloudProvider: Send + Sync {
    /// What the provider's own settings add to `request` (subnets, launch template, tags), in its own words. It is written down
    /// with the order before the first call and comes back in [`LaunchRequest::terms`], so that an order that is sent again is the
    /// same request although settings have changed. Empty where settings add nothing.
    fn terms(&self, request: &LaunchRequest) -> Text {
        let _nothing_is_added = request;
        Text::default()
    }

    /// Buys one machine.
    ///
    /// # Errors
    /// [`CloudError`]; only `RequestLimitExceeded` and `Unknown` leave it open whether the same request may still succeed.
    fn launch(&self, request: &LaunchRequest) -> impl Future<Output = Result<LaunchOutcome, CloudError>> + Send;

    /// Gives a machine of `owner` back. Success means that the cloud has begun; [`CloudProvider::describe`] says when it is
    /// done. Whose a machine is follows from its tags: what an agent says of its cluster's NodeClaims may be a lie.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] when it is gone already, [`CloudError::Foreign`] when it is not this cluster's, else why it could
    /// not be given back.
    fn terminate(&self, id: &str, owner: Owner<'_>) -> impl Future<Output = Result<(), CloudError>> + Send;

    /// One machine.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] when there is none of that id, or it is long gone.
    fn describe(&self, id: &str) -> impl Future<Output = Result<Instance, CloudError>> + Send;

    /// Every machine of `cluster` that is not gone. May lag behind.
    ///
    /// # Errors
    /// [`CloudError`] when the listing is not complete; nothing may be concluded from a part of it.
    fn list(&self, cluster: &str) -> impl Future<Output = Result<Vec<Instance>, CloudError>> + Send;

    /// Every machine of ours in this account and region that is not gone, of whatever cluster. May lag behind.
    ///
    /// # Errors
    /// [`CloudError`] when the listing is not complete; nothing may be concluded from a part of it.
    fn list_all(&self) -> impl Future<Output = Result<Vec<Instance>, CloudError>> + Send;

    /// What has happened to machines since the last call.
    ///
    /// # Errors
    /// [`CloudError`] when the events could not be fetched; they stay where they are.
    fn events(&self) -> impl Future<Output = Result<Vec<CloudEvent>, CloudError>> + Send;
}
