//! The cloud provider interface, in the cloud's terms and without its SDK.
//!
//! The semantics are those of an EC2 Fleet of type `instant`: one capacity type per request, up to
//! [`MAX_OVERRIDES`] pairs of instance type and zone, one instance. A token identifies the request:
//! the same token with the same request returns the same instance, with another request it is
//! refused. Listings may lag behind launches and terminations.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::notice::Notice;
pub use model::InstanceDetails;
use model::interruption::InterruptionKind;
use model::node_class::{NodeClassQuery, ResolvedNodeClass};
use model::{
    CapacityType, ClaimName, ClusterName, InstanceTypeName, LaunchFailure, LaunchOrder, LaunchTemplateInput, PoolName,
    ProviderId, RefusedOption, Text, Timestamp, Zone,
};

/// Maximum pairs of instance type and zone per request. A Fleet permits 300; more than this only
/// costs API time (Karpenter's AWS provider sends as many).
pub const MAX_OVERRIDES: usize = 60;

/// Codes of a right that the credentials lack: EC2's, IAM's, and that of the services with JSON.
const DENIED: [&str; 3] = ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException"];

/// Codes of credentials that are expired, unknown or blocked: no call succeeds with them.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>
const CREDENTIALS: [&str; 12] = [
    "AuthFailure",
    "Blocked",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "MissingAuthenticationToken",
    "OptInRequired",
    "PendingVerification",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

/// The call that makes a session of a role; without the session no other call is sent.
const ASSUME_ROLE: &str = "AssumeRole";

/// Whether the code says that the credentials lack a right.
#[must_use]
pub fn is_denied(code: &str) -> bool {
    DENIED.contains(&code)
}

/// What an error says about the cloud rather than about the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// It gave no answer, or reported a fault of its own.
    NoAnswer,
    /// It refuses the credentials for every call.
    Credentials,
    /// It denies the action.
    Denied,
}

/// Codes of refusals that another attempt does not repeat: a launch template was deleted, and the next
/// attempt creates it again.
const RETRYABLE: [&str; 2] = ["InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound"];

/// A request to launch one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchRequest {
    /// Client token, unique in the cluster: at most one instance is launched for it, however often the request is sent.
    pub token: Text,
    /// Cluster name, for the instance tags.
    pub cluster: ClusterName,
    /// Cluster UID, for the instance tags: a name may have been used by two clusters. Empty when
    /// unknown.
    pub cluster_uid: Text,
    /// NodeClaim name, for the instance tags.
    pub claim: ClaimName,
    /// NodePool name, for the instance tags.
    pub pool: PoolName,
    /// EC2NodeClass name, for the instance tags.
    pub node_class: Text,
    /// Spot, on-demand or reserved.
    pub capacity_type: CapacityType,
    /// Permitted instance types and zones, best first; 1 to [`MAX_OVERRIDES`].
    pub overrides: Vec<Override>,
    /// Capacity reservation to use.
    pub reservation: Option<Text>,
    /// Result of [`CloudProvider::terms`] when the order was recorded; empty when there was none.
    pub terms: Text,
    /// What the instance is configured by; `None` for orders of an earlier process, whose terms say it.
    pub template: Option<Arc<LaunchTemplateInput>>,
}

/// One permitted instance type and zone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Override {
    /// Instance type name.
    pub instance_type: InstanceTypeName,
    /// Availability zone, such as `us-east-1a`.
    pub zone: Zone,
}

impl Override {
    /// The override, refused for want of capacity.
    #[must_use]
    pub fn without_capacity(&self) -> RefusedOption {
        RefusedOption::without_capacity(self.instance_type.clone(), self.zone.clone())
    }
}

impl From<&RefusedOption> for Override {
    fn from(refused: &RefusedOption) -> Self {
        Self { instance_type: refused.instance_type.clone(), zone: refused.zone.clone() }
    }
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
            template: order.template.clone(),
        }
    }
}

/// Result of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchOutcome {
    /// The launched instance.
    pub instance: Instance,
    /// Overrides tried before, and why each was refused.
    pub unavailable: Vec<RefusedOption>,
}

/// Lifecycle state of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InstanceState {
    /// Launched, not running yet.
    Pending,
    /// Running; its kubelet may join.
    Running,
    /// Shutting down; it does not return to another state.
    ShuttingDown,
    /// Terminated; listings may omit it.
    Terminated,
}

/// An instance, as the cloud describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Instance id, such as `i-0123456789abcdef0`.
    pub id: Text,
    /// `aws:///<zone>/<instance id>`.
    pub provider_id: ProviderId,
    /// Instance type name.
    pub instance_type: InstanceTypeName,
    /// Availability zone, such as `us-east-1a`.
    pub zone: Zone,
    /// Spot, on-demand or reserved.
    pub capacity_type: CapacityType,
    /// State at the time of the description.
    pub state: InstanceState,
    /// Cluster name, from the tag; empty when absent.
    pub cluster: ClusterName,
    /// Cluster UID, from the tag; empty when absent.
    pub cluster_uid: Text,
    /// NodeClaim name, from the tag; empty when absent.
    pub claim: ClaimName,
    /// NodePool name, from the tag; empty when absent.
    pub pool: PoolName,
    /// Launch time, by the clock of the cloud.
    pub launched: Timestamp,
    /// What it was launched with.
    pub details: InstanceDetails,
}

/// Instance id of a provider id: the part after the last `/`.
#[must_use]
pub fn instance_id(provider_id: &str) -> &str {
    provider_id.rsplit('/').next().unwrap_or(provider_id)
}

/// Error of a cloud call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// No override has capacity. No instance was launched.
    #[error("insufficient capacity for each of {} options: {}", .unavailable.len(), list(.unavailable))]
    InsufficientCapacity {
        /// The overrides that were tried, and why each was refused.
        unavailable: Vec<RefusedOption>,
    },
    /// Rate limit exceeded. Nothing was done; the same request may be repeated.
    #[error("the cloud asks to call less often; the request may be sent again after {retry_after_ms} ms")]
    RequestLimitExceeded {
        /// Minimum delay before a retry, in milliseconds.
        retry_after_ms: i64,
    },
    /// The token was used for another request, and no instance of that request is listed. It may
    /// still have launched one, so the NodeClaim gets no further attempt; an instance that appears
    /// later is garbage collected.
    #[error(
        "the token {token} was used with other parameters before, and the cloud lists no machine that came of that call"
    )]
    IdempotentParameterMismatch {
        /// Client token of the request.
        token: Text,
    },
    /// The instance does not exist, or no longer.
    #[error("the cloud knows no instance {id}")]
    NotFound {
        /// Id of the instance in the call.
        id: Text,
    },
    /// The instance belongs to another cluster or is not managed. It was not changed.
    #[error("instance {id} belongs to {}, not to cluster {asked:?}: it is left alone", owner_text(.owner))]
    Foreign {
        /// Id of the instance in the call.
        id: Text,
        /// Cluster of its tags, with the UID when only that differs; empty when it has none.
        owner: Text,
        /// Cluster of the caller, likewise.
        asked: Text,
    },
    /// No response. The outcome is unknown; the same request must be repeated.
    #[error("no answer from the cloud to {operation}; the same request must be sent again to learn what came of it")]
    Unknown {
        /// The call, such as `CreateFleet`.
        operation: Text,
    },
    /// The cloud rejected the request.
    #[error("the cloud refuses {operation}: {code}: {message}")]
    Refused {
        /// The call, such as `CreateFleet`.
        operation: Text,
        /// Error code of the cloud.
        code: Text,
        /// Error message of the cloud.
        message: String,
    },
}

fn owner_text(owner: &str) -> String {
    if owner.is_empty() { "no cluster of ours".to_owned() } else { format!("cluster {owner:?}") }
}

/// The first options, for an error: a launch may have sixty.
fn list(options: &[RefusedOption]) -> String {
    const SHOWN: usize = 3;
    let shown = options.iter().take(SHOWN);
    let shown = shown.map(|option| format!("{} in {} ({})", option.instance_type, option.zone, option.code));
    let shown = shown.collect::<Vec<String>>().join(", ");
    match options.len().saturating_sub(SHOWN) {
        0 => shown,
        others => format!("{shown} and {others} others"),
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.instance_type, self.zone)
    }
}

impl CloudError {
    /// What the error says about the cloud; `None` for an answer to the request.
    #[must_use]
    pub fn outage(&self) -> Option<Outage> {
        match self {
            Self::Unknown { .. } => Some(Outage::NoAnswer),
            Self::Refused { operation, code, .. } if &**operation == ASSUME_ROLE || CREDENTIALS.contains(&&**code) => {
                Some(Outage::Credentials)
            }
            Self::Refused { code, .. } if is_denied(code) => Some(Outage::Denied),
            Self::Refused { .. }
            | Self::InsufficientCapacity { .. }
            | Self::RequestLimitExceeded { .. }
            | Self::IdempotentParameterMismatch { .. }
            | Self::NotFound { .. }
            | Self::Foreign { .. } => None,
        }
    }

    /// The failure for the controller; `None` when the same request must be repeated.
    #[must_use]
    pub fn as_launch_failure(&self) -> Option<LaunchFailure> {
        let refused = |code: &Text, retryable| LaunchFailure::Refused {
            code: code.clone(),
            message: self.to_string(),
            retryable,
        };
        match self {
            Self::InsufficientCapacity { unavailable } => {
                Some(LaunchFailure::InsufficientCapacity { unavailable: unavailable.clone() })
            }
            Self::IdempotentParameterMismatch { .. } => {
                Some(refused(&Text::from("IdempotentParameterMismatch"), false))
            }
            Self::NotFound { .. } => Some(refused(&Text::from("NotFound"), false)),
            Self::Foreign { .. } => Some(refused(&Text::from("Foreign"), false)),
            Self::Refused { code, .. } => Some(refused(code, RETRYABLE.contains(&&**code))),
            Self::RequestLimitExceeded { .. } | Self::Unknown { .. } => None,
        }
    }
}

/// A spontaneous change of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloudEvent {
    /// The instance is running, and its kubelet may join.
    Running(Instance),
    /// The cloud announces, or reports, that the instance ends or fails.
    Interrupted {
        /// The instance.
        instance: Instance,
        /// What happens to it.
        kind: InterruptionKind,
        /// When it ends, as far as the cloud has set a time.
        at: Option<Timestamp>,
    },
    /// The instance is terminated.
    Terminated(Instance),
}

/// The cluster that an instance is tagged with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'o> {
    /// Name of the cluster.
    pub cluster: &'o ClusterName,
    /// Cluster UID: a rebuilt cluster may have the name of one whose instances still run. Empty
    /// when unknown.
    pub uid: &'o str,
}

impl Instance {
    /// Checks that the instance belongs to `asked`, by name and UID. The name alone is no proof: it
    /// may be reused.
    ///
    /// # Errors
    /// [`CloudError::Foreign`] when its tags name another cluster, another UID of that name, or
    /// none.
    pub fn owned_by(&self, asked: Owner<'_>) -> Result<(), CloudError> {
        let own = Owner { cluster: &self.cluster, uid: &self.cluster_uid };
        let named = own.cluster == asked.cluster && !asked.cluster.is_empty();
        if named && own.uid == asked.uid && !own.uid.is_empty() {
            return Ok(());
        }
        let describe = |owner: Owner<'_>| {
            let Owner { cluster, uid } = owner;
            if named { Text::from(format!("{cluster} (UID {uid})")) } else { cluster.as_text().clone() }
        };
        Err(CloudError::Foreign { id: self.id.clone(), owner: describe(own), asked: describe(asked) })
    }
}

/// A cloud provider. Calls may be concurrent.
#[async_trait]
pub trait CloudProvider: Send + Sync {
    /// What the provider's settings add to `request` (subnets, launch template, tags), as text. It
    /// is recorded with the order before the first call and returned in [`LaunchRequest::terms`],
    /// so that a repeated order is the same request although settings have changed. Empty where
    /// settings add nothing.
    fn terms(&self, request: &LaunchRequest) -> Text {
        let _nothing_is_added = request;
        Text::default()
    }

    /// Launches one instance.
    ///
    /// # Errors
    /// [`CloudError`]; only after `RequestLimitExceeded` and `Unknown` may the same request still
    /// succeed.
    async fn launch(&self, request: &LaunchRequest) -> Result<LaunchOutcome, CloudError>;

    /// Terminates an instance of `owner`. Success means that termination has begun;
    /// [`CloudProvider::describe`] shows its end. The tags determine the owner: the NodeClaims that
    /// an agent reports may be forged.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] when it is terminated already, [`CloudError::Foreign`] when it
    /// belongs to another cluster, else the failure.
    async fn terminate(&self, id: &str, owner: Owner<'_>) -> Result<(), CloudError>;

    /// Describes one instance.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] when the id is unknown or was terminated long ago.
    async fn describe(&self, id: &str) -> Result<Instance, CloudError>;

    /// All instances of `cluster` that are not terminated. May lag behind.
    ///
    /// # Errors
    /// [`CloudError`] when the listing is incomplete; callers must not use a part of it.
    async fn list(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError>;

    /// All managed instances of this account and region that are not terminated, of any cluster.
    /// May lag behind.
    ///
    /// # Errors
    /// [`CloudError`] when the listing is incomplete; callers must not use a part of it.
    async fn list_all(&self) -> Result<Vec<Instance>, CloudError>;

    /// Looks up what an EC2NodeClass selects, and checks what its launches need. Never fails: what
    /// could not be looked up is a condition of the result.
    async fn resolve_node_class(&self, query: &NodeClassQuery) -> ResolvedNodeClass;

    /// Notices about instances whose status checks fail, or that have scheduled events. A status that lasts has
    /// the same notice in each call, until it is repeated. A cloud without instance status has none.
    ///
    /// # Errors
    /// [`CloudError`] when the status could not be read.
    async fn status_notices(&self) -> Result<Vec<Notice>, CloudError> {
        Ok(Vec::new())
    }

    /// What the cloud says itself about the instances that `asked` names by their ids, as far as it can show what their
    /// notices say: more notices than those are possible. `None` where nobody else can send notices in the cloud's name, so
    /// that there is nothing to compare.
    ///
    /// # Errors
    /// [`CloudError`] when the instances could not be looked up.
    async fn shown_notices(&self, asked: &[(Text, InterruptionKind)]) -> Result<Option<Vec<Notice>>, CloudError> {
        let _notices_are_its_own = asked;
        Ok(None)
    }

    /// Events since the last call; `None` when the cloud was not asked, because no question is due yet.
    ///
    /// # Errors
    /// [`CloudError`] when the events could not be fetched; none is lost.
    async fn events(&self) -> Result<Option<Vec<CloudEvent>>, CloudError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_silence_refused_credentials_and_denied_actions_say_something_about_the_cloud() {
        let refused = |operation: &str, code: &str| CloudError::Refused {
            operation: operation.into(),
            code: code.into(),
            message: "text".to_owned(),
        };
        for (error, expected) in [
            (CloudError::Unknown { operation: "CreateFleet".into() }, Some(Outage::NoAnswer)),
            (refused("DescribeInstances", "RequestExpired"), Some(Outage::Credentials)),
            (refused("CreateFleet", "AuthFailure"), Some(Outage::Credentials)),
            // Whatever the code: no other call is sent without the session.
            (refused("AssumeRole", "AccessDenied"), Some(Outage::Credentials)),
            (refused("CreateFleet", "UnauthorizedOperation"), Some(Outage::Denied)),
            (refused("CreateFleet", "InvalidParameterValue"), None),
            (CloudError::InsufficientCapacity { unavailable: Vec::new() }, None),
            (CloudError::RequestLimitExceeded { retry_after_ms: 1 }, None),
            (CloudError::NotFound { id: "i-1".into() }, None),
        ] {
            assert_eq!(error.outage(), expected, "{error}");
        }
    }
}
