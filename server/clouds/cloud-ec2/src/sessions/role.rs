//! The session of one role: its credentials, and when they are renewed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use aws_sdk_ec2::config::Credentials;
use aws_sdk_sts::operation::assume_role::AssumeRoleOutput;
use aws_sdk_sts::types::Tag;
use model::{ClusterName, Millis, Timestamp};
use sha2::{Digest, Sha256};
use tracing::warn;

use crate::call_error::{CallError, CallErrorClass};
use crate::settings::Roles;
use crate::slot::{Slot, spread};

const ASSUME_ROLE: &str = "sts:AssumeRole";

/// Lifetime of a session. AWS allows no longer one when the server's own credentials are of a role (IAM: role chaining).
const LIFETIME_S: i32 = 3_600;
/// A session is renewed this long before its end, less a spread. A refresh that fails leaves it in use until the end.
const RENEWED_BEFORE: Millis = Millis::from_mins(5);
/// Longest wait for an answer of STS.
const TIMEOUT: Duration = Duration::from_secs(10);
/// AWS may not know a session everywhere at once (IAM: eventual consistency): a younger one that is rejected is kept.
const MIN_AGE: Millis = Millis::from_mins(1);

/// A denied call drops a session of this age: an operator may have revoked it, which IAM does by a policy that denies
/// everything to sessions made before a time.
const MIN_AGE_DENIED: Millis = Millis::from_mins(5);

/// Key of the tag with the cluster's name. EKS Pod Identity uses it, so policies with
/// `${aws:PrincipalTag/eks-cluster-name}` hold for both.
const CLUSTER_TAG: &str = "eks-cluster-name";
/// Longest name of a session and of a role (IAM: quotas).
const MAX_NAME: usize = 64;
/// Place of the cluster's name in an ARN of the settings.
const PLACEHOLDER: &str = "{cluster}";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AssumedRole {
    arn: String,
    session_name: String,
    external_id: Option<String>,
    /// The cluster whose session it is; `None` for the account's.
    cluster: Option<ClusterName>,
}

/// The role for the changes of `cluster`; `None` without roles.
///
/// # Errors
/// The cluster's name cannot be part of a role or a session.
pub(super) fn role_of(roles: &Roles, cluster: &ClusterName) -> Option<Result<String, CallError>> {
    let pattern = roles.cluster.as_ref().or(roles.account.as_ref())?;
    // A slash would choose another role, and a wildcard would widen a policy that has the tag in a resource.
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    let refused = |message: String| {
        Some(Err(CallError::new(ASSUME_ROLE, CallErrorClass::NotAssumable, "InvalidClusterName", message)))
    };
    if cluster.is_empty() || !cluster.chars().all(is_allowed) {
        return refused(format!(
            "cluster {cluster:?} can have no session of a role: AWS allows letters, digits and _+=,.@- in its name; \
             register the cluster under another name"
        ));
    }
    let arn = pattern.replace(PLACEHOLDER, cluster);
    let name = arn.rsplit('/').next().unwrap_or_default();
    if name.len() > MAX_NAME {
        return refused(format!(
            "the role {name} of cluster {cluster} has a name of {} characters, and IAM allows {MAX_NAME}: shorten the \
             name of the roles in the server's configuration, or register the cluster under a shorter name",
            name.len()
        ));
    }
    Some(Ok(arn))
}

impl AssumedRole {
    /// The account's role, for what its clusters share.
    pub(super) fn of_account(arn: &str, roles: &Roles) -> Self {
        let external_id = roles.external_id.clone();
        Self { arn: arn.to_owned(), session_name: "fleetwright".to_owned(), external_id, cluster: None }
    }

    /// The role at `arn` in a session of `cluster`.
    pub(super) fn of_cluster(arn: &str, cluster: &ClusterName, roles: &Roles) -> Self {
        Self {
            arn: arn.to_owned(),
            session_name: session_name(cluster),
            external_id: roles.external_id.clone(),
            cluster: Some(cluster.clone()),
        }
    }

    /// The error of AssumeRole as one sentence about this role.
    fn explain(&self, error: CallError) -> CallError {
        if matches!(error.class(), CallErrorClass::Throttled | CallErrorClass::Unclear) {
            let message = format!("{}, for {self}", error.message());
            return CallError::new(ASSUME_ROLE, error.class(), error.code(), message);
        }
        let rights = if self.cluster.is_some() { "sts:AssumeRole and sts:TagSession" } else { "sts:AssumeRole" };
        let id = match self.external_id {
            Some(_) => "with the external id of the server's configuration",
            None => "without an external id, as the server's configuration has none",
        };
        let message = format!(
            "the server cannot assume {self} ({}: {}): check that the role exists, that its trust policy allows the \
             server's identity {rights} {id}, and that the server's own policy allows the same",
            error.code(),
            error.message()
        );
        CallError::new(ASSUME_ROLE, CallErrorClass::NotAssumable, error.code(), message)
    }
}

impl fmt::Display for AssumedRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            Some(cluster) => write!(f, "the role {} for cluster {cluster}", self.arn),
            None => write!(f, "the role {} for the lookups of all clusters", self.arn),
        }
    }
}

/// Name of the cluster's sessions, which AWS CloudTrail shows. A long one ends with a digest, so that it is one cluster's.
fn session_name(cluster: &ClusterName) -> String {
    let name = format!("fleetwright-{cluster}");
    if name.len() <= MAX_NAME {
        return name;
    }
    let digest: String = Sha256::digest(cluster.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let kept: String = name.chars().take(MAX_NAME - 1 - digest.len()).collect();
    format!("{kept}-{digest}")
}

/// Credentials of a role. The SDK's own cache could neither drop a session that AWS rejects nor hold back calls to a
/// role that cannot be assumed, so credentials are kept here.
#[derive(Debug)]
pub(crate) struct RoleSession {
    sts: aws_sdk_sts::Client,
    role: AssumedRole,
    clock: fn() -> Timestamp,
    /// Held during AssumeRole: others wait for its answer.
    slot: tokio::sync::Mutex<Slot<Credentials>>,
}

impl RoleSession {
    pub(super) fn new(sts: aws_sdk_sts::Client, role: AssumedRole, clock: fn() -> Timestamp) -> Self {
        Self { sts, role, clock, slot: tokio::sync::Mutex::default() }
    }

    /// Credentials that have not expired. Makes or renews the session where that is due.
    ///
    /// # Errors
    /// Why the role cannot be assumed; calls in the following minutes get the same error.
    pub(crate) async fn credentials(&self) -> Result<Credentials, CallError> {
        let mut slot = self.slot.lock().await;
        let now = (self.clock)();
        if slot.is_due(now) {
            let spread = spread(&self.role);
            match self.assume().await {
                Ok(made) => {
                    let lifetime = expiry(&made).map_or(Millis::ZERO, |end| end.duration_since(now));
                    slot.succeed(made, now, lifetime - RENEWED_BEFORE, spread);
                }
                Err(error) => {
                    warn!(role = self.role.arn, code = error.code(), %error, "role not assumed");
                    slot.fail(error, now, spread);
                }
            }
        }
        match slot.last().filter(|made| expiry(made).is_some_and(|end| end > now)) {
            Some(made) => Ok(made.clone()),
            None => Err(slot.error().cloned().unwrap_or_else(|| self.rejected("ExpiredToken"))),
        }
    }

    /// Drops the session with this access key, which AWS has rejected with `code`. Returns the error of the call, which
    /// may be sent again; `None` when the session is new, so that another one would be rejected too.
    pub(crate) async fn reject(&self, access_key: &str, code: &str) -> Option<CallError> {
        if !self.forget(access_key, MIN_AGE).await {
            return None;
        }
        warn!(role = self.role.arn, code, "session rejected");
        Some(self.rejected(code))
    }

    /// A call with this access key was denied.
    pub(crate) async fn deny(&self, access_key: &str) {
        self.forget(access_key, MIN_AGE_DENIED).await;
    }

    /// Drops the session with this access key, unless it is younger than `min_age`. Returns whether there is none with it.
    async fn forget(&self, access_key: &str, min_age: Millis) -> bool {
        let mut slot = self.slot.lock().await;
        let is_current = slot.last().is_some_and(|made| made.access_key_id() == access_key);
        let is_young = slot.served((self.clock)()).is_ok_and(|served| served.age < min_age);
        if is_current && !is_young {
            *slot = Slot::default();
        }
        !is_current || !is_young
    }

    fn rejected(&self, code: &str) -> CallError {
        let message =
            format!("AWS does not accept the session of {} any more; the next call makes a new one", self.role);
        CallError::new(ASSUME_ROLE, CallErrorClass::Unclear, code, message)
    }

    async fn assume(&self) -> Result<Credentials, CallError> {
        let tag = |cluster: &ClusterName| Tag::builder().key(CLUSTER_TAG).value(cluster.to_string()).build();
        let tags = self.role.cluster.as_ref().map(tag).transpose();
        let tags = tags.map_err(|error| {
            CallError::new(ASSUME_ROLE, CallErrorClass::Refused, "InvalidRequest", error.to_string())
        })?;
        let call = self.sts.assume_role().role_arn(&self.role.arn).role_session_name(&self.role.session_name);
        let call = call.duration_seconds(LIFETIME_S).set_external_id(self.role.external_id.clone());
        let sent = call.set_tags(tags.map(|tag| vec![tag])).send();
        let timeout = || CallError::new(ASSUME_ROLE, CallErrorClass::Unclear, "timeout", format!("{TIMEOUT:?}"));
        let answer = match tokio::time::timeout(TIMEOUT, sent).await {
            Ok(answer) => answer.map_err(|error| CallError::read(ASSUME_ROLE, &error)),
            Err(_) => Err(timeout()),
        };
        answer.and_then(|answer| read(&answer)).map_err(|error| self.role.explain(error))
    }
}

fn read(answer: &AssumeRoleOutput) -> Result<Credentials, CallError> {
    let incomplete = || CallError::new(ASSUME_ROLE, CallErrorClass::Unclear, "no credentials", "the answer has none");
    let made = answer.credentials().ok_or_else(incomplete)?;
    let expires = std::time::SystemTime::try_from(*made.expiration()).map_err(|_| incomplete())?;
    let token = Some(made.session_token().to_owned());
    Ok(Credentials::new(made.access_key_id(), made.secret_access_key(), token, Some(expires), "AssumeRole"))
}

fn expiry(made: &Credentials) -> Option<Timestamp> {
    let since = made.expiry()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp::from_millis(i64::try_from(since.as_millis()).ok()?))
}

/// The credentials of a session, for the SDK.
#[derive(Debug)]
pub(crate) struct SessionCredentials(pub(crate) Arc<RoleSession>);

impl ProvideCredentials for SessionCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async { self.0.credentials().await.map_err(CredentialsError::provider_error) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(account: Option<&str>, cluster: Option<&str>) -> Roles {
        let text = |arn: Option<&str>| arn.map(str::to_owned);
        Roles { account: text(account), cluster: text(cluster), external_id: None }
    }

    fn arn(account: Option<&str>, cluster: Option<&str>, name: &str) -> Option<Result<String, CallError>> {
        role_of(&roles(account, cluster), &name.into())
    }

    #[test]
    fn the_role_of_a_cluster_comes_before_that_of_the_account() {
        let both = (Some("arn:aws:iam::1:role/a"), Some("arn:aws:iam::1:role/fleetwright-{cluster}"));
        assert_eq!(arn(both.0, both.1, "blue"), Some(Ok("arn:aws:iam::1:role/fleetwright-blue".to_owned())));
        assert_eq!(arn(both.0, None, "blue"), Some(Ok("arn:aws:iam::1:role/a".to_owned())));
        assert_eq!(arn(None, None, "a/b"), None);
    }

    #[test]
    fn a_name_that_could_choose_another_role_is_refused() {
        let pattern = Some("arn:aws:iam::1:role/{cluster}");
        for (name, part) in [
            ("x/admin", "cluster \"x/admin\" can have no session of a role"),
            ("*", "cluster \"*\" can have"),
            ("", "cluster \"\" can have"),
            (&"c".repeat(65), "has a name of 65 characters, and IAM allows 64"),
        ] {
            let error = arn(None, pattern, name).unwrap().unwrap_err();
            assert_eq!((error.class(), error.reason()), (CallErrorClass::NotAssumable, "RoleNotAssumable"));
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(arn(None, pattern, &"c".repeat(64)).unwrap().is_ok());
        assert!(arn(Some("arn:aws:iam::1:role/a"), None, "x/admin").unwrap().is_err(), "its tag would be in policies");
    }

    #[test]
    fn a_session_has_a_name_of_at_most_64_characters_that_is_one_clusters() {
        assert_eq!(session_name(&"prod.eu_1".into()), "fleetwright-prod.eu_1");
        let long = ["a", "b"].map(|end| session_name(&format!("{}{end}", "c".repeat(99)).as_str().into()));
        assert_eq!([long[0].len(), long[1].len()], [64, 64]);
        assert_ne!(long[0], long[1]);
        // 64 - 12 of `fleetwright-`: the longest name that fits.
        assert_eq!(session_name(&"c".repeat(52).as_str().into()), format!("fleetwright-{}", "c".repeat(52)));
    }

    #[test]
    fn a_refused_role_is_one_sentence_with_what_to_do() {
        let denied = || CallError::new(ASSUME_ROLE, CallErrorClass::Denied, "AccessDenied", "not authorized");
        let mut roles = roles(Some("arn:aws:iam::1:role/a"), None);
        let of_cluster = AssumedRole::of_cluster("arn:aws:iam::1:role/a", &"blue".into(), &roles).explain(denied());
        assert_eq!(
            of_cluster.to_string(),
            "the server cannot assume the role arn:aws:iam::1:role/a for cluster blue (AccessDenied: not authorized): \
             check that the role exists, that its trust policy allows the server's identity sts:AssumeRole and \
             sts:TagSession without an external id, as the server's configuration has none, and that the server's own \
             policy allows the same"
        );
        roles.external_id = Some("id".to_owned());
        let of_account = AssumedRole::of_account("arn:aws:iam::1:role/a", &roles).explain(denied());
        assert!(of_account.to_string().contains("sts:AssumeRole with the external id of the server's configuration,"));
    }
}
