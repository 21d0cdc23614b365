//! What the operator has to do when the API server forbids a request for one of the agent's Leases.

use crate::connect::DEFAULT_NAMESPACE;
use crate::error::{ApiError, ErrorKind};

/// Name of the agent's Role and service account in `deploy/agent/rbac.yaml`.
const ROLE: &str = "fleetwright-agent";
/// The Leases that the Role allows: the default of `kubernetes.lease`, and the same for the epoch.
const LEASES: [&str; 2] = ["fleetwright-agent", "fleetwright-agent-epoch"];

/// The remedy when `error` forbids `lease` in `namespace`; `None` for other errors.
pub(crate) fn remedy(namespace: &str, lease: &str, error: &ApiError) -> Option<String> {
    if error.kind != ErrorKind::Forbidden {
        return None;
    }
    Some(if namespace != DEFAULT_NAMESPACE {
        format!(
            "the Role {ROLE} of deploy/agent/rbac.yaml is in namespace {DEFAULT_NAMESPACE}: set kubernetes.namespace = \
             \"{DEFAULT_NAMESPACE}\", or create the Role and its RoleBinding in namespace {namespace}"
        )
    } else if !LEASES.contains(&lease) {
        let [first, second] = LEASES;
        format!(
            "the Role {DEFAULT_NAMESPACE}/{ROLE} allows the Leases {first} and {second}: set kubernetes.lease = \"{first}\", \
             or add {lease} to the Role"
        )
    } else {
        format!(
            "apply deploy/agent/rbac.yaml, and use credentials of the service account {DEFAULT_NAMESPACE}/{ROLE}, to which \
             it binds the Role {DEFAULT_NAMESPACE}/{ROLE}"
        )
    })
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn of(namespace: &str, lease: &str, code: StatusCode) -> Option<String> {
        remedy(namespace, lease, &ApiError::from_response("GET /x".into(), code, b"{}", None))
    }

    /// Deleting the roles must not delete the server and its Secrets, which may be in the namespace.
    #[test]
    fn the_roles_of_deploy_are_those_of_the_remedies_and_their_file_has_no_namespace() {
        let roles = include_str!("../../../deploy/agent/rbac.yaml");
        assert!(!roles.contains("kind: Namespace"));
        assert!(roles.contains(&format!("kind: Role\nmetadata:\n  name: {ROLE}\n  namespace: {DEFAULT_NAMESPACE}\n")));
        for lease in LEASES {
            assert!(roles.contains(&format!("resourceNames: [{lease}]")), "{lease}");
        }
        let namespace = include_str!("../../../deploy/agent/namespace.yaml");
        assert!(namespace.contains(&format!("kind: Namespace\nmetadata:\n  name: {DEFAULT_NAMESPACE}\n")));
    }

    #[test]
    fn the_remedy_is_the_setting_that_leads_away_from_the_role() {
        let forbidden = StatusCode::FORBIDDEN;
        let namespace = of("default", "fleetwright-agent", forbidden).unwrap();
        assert!(namespace.contains("set kubernetes.namespace = \"fleetwright-system\""), "{namespace}");
        assert!(namespace.contains("in namespace default"), "{namespace}");
        let lease = of("fleetwright-system", "blue-epoch", forbidden).unwrap();
        assert!(lease.contains("set kubernetes.lease") && lease.contains("add blue-epoch to the Role"), "{lease}");
        let role = of("fleetwright-system", "fleetwright-agent-epoch", forbidden).unwrap();
        assert!(role.starts_with("apply deploy/agent/rbac.yaml"), "{role}");
        assert_eq!(of("default", "fleetwright-agent", StatusCode::SERVICE_UNAVAILABLE), None);
    }
}
