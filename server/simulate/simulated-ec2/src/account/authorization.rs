//! Whether the policies of a caller's role allow a call. Only sessions of roles with policies are judged.
//!
//! EC2 and IAM are judged by action, resource and tags, the other services by action alone.
//!
//! Reading order: `demand` (one right), `policy` (what a document allows), the caller here, `demands` (what a call
//! requires).

pub(crate) mod demand;
pub(crate) mod demands;
mod policy;

use model::Timestamp;

use self::demand::Demand;
use self::policy::Policy;
use crate::api_error::ApiError;
use crate::service::Service;
use crate::settings::{Role, Tags};

/// A session of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) role: String,
    pub(crate) arn: String,
    pub(crate) tags: Tags,
    pub(crate) expires: Timestamp,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// The session, and what the policies of its role allow.
    session: Option<(Session, Policy)>,
}

impl Caller {
    /// The caller in a session of `role`; one without a role may do everything.
    ///
    /// # Errors
    /// A policy of the role that is not understood.
    pub(crate) fn new(session: &Session, role: Option<&Role>) -> Result<Self, ApiError> {
        let policies = role.map_or(&[][..], |role| &role.policies);
        if policies.is_empty() {
            return Ok(Self::default());
        }
        let policy = Policy::read(policies);
        let policy = policy.map_err(|error| {
            ApiError::new("UnsupportedOperation", format!("The policy of the role {} {error}", session.role))
        })?;
        Ok(Self { session: Some((session.clone(), policy)) })
    }

    /// Whether calls of the caller are judged.
    pub(crate) fn is_judged(&self) -> bool {
        self.session.is_some()
    }

    /// Checks that everything that a call of `service` requires is allowed.
    ///
    /// # Errors
    /// The service's error for the first demand that no policy allows.
    pub(crate) fn check(&self, service: Service, demands: Vec<Demand>) -> Result<(), ApiError> {
        let Some((session, policy)) = &self.session else { return Ok(()) };
        for demand in demands {
            let demand = demand.by(&session.tags);
            if !policy.allows(&demand) {
                let (arn, action) = (&session.arn, &demand.action());
                let resource = demand.resource().unwrap_or("*");
                let first = match service {
                    Service::Ec2 => "You are not authorized to perform this operation. ",
                    _ => "",
                };
                let message = format!(
                    "{first}User: {arn} is not authorized to perform: {action} on resource: {resource} because no \
                     identity-based policy allows the {action} action"
                );
                return Err(ApiError::new(service.denied_code(), message));
            }
        }
        Ok(())
    }
}
