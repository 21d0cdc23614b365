//! The agent's requests according to the API server's audit log.

use anyhow::Context;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedRequest {
    /// Name of the user, such as `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// Verb, for example `list`.
    pub verb: String,
    /// API group; empty for the core.
    pub group: String,
    /// Resource with its subresource, for example `pods/eviction`.
    pub resource: String,
    /// Namespace of the object; empty for cluster-wide requests.
    pub namespace: String,
    /// Name of the object; empty for lists.
    pub name: String,
    /// HTTP status of the response.
    pub code: i64,
    /// Whether RBAC forbade it. Admission uses the same status for other reasons.
    pub forbidden: bool,
    pub message: String,
}

impl AuditedRequest {
    /// Whether it was about this object.
    #[must_use]
    pub fn is_about(&self, resource: &str, name: &str) -> bool {
        self.resource == resource && self.name == name
    }
}

/// Parses a log of one JSON event per line. An incomplete last line is still being written, and
/// omitted.
///
/// # Errors
/// When a complete line is no event.
pub fn parse_audit_log(log: &str) -> anyhow::Result<Vec<AuditedRequest>> {
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| parse_event(line).with_context(|| format!("no audit event: {line}"))).collect()
}

fn parse_event(line: &str) -> anyhow::Result<AuditedRequest> {
    let event: Value = serde_json::from_str(line)?;
    let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let resource = match text("/objectRef/subresource").as_str() {
        "" => text("/objectRef/resource"),
        part => format!("{}/{part}", text("/objectRef/resource")),
    };
    Ok(AuditedRequest {
        user: text("/user/username"),
        verb: text("/verb"),
        group: text("/objectRef/apiGroup"),
        resource,
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: event.pointer("/responseStatus/code").and_then(Value::as_i64).unwrap_or_default(),
        forbidden: event
            .pointer("/annotations/authorization.k8s.io~1decision")
            .is_some_and(|output| output == "forbid"),
        message: text("/responseStatus/message"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_user_the_request_and_the_response() {
        let line = r#"{"verb":"create","user":{"username":"system:serviceaccount:a:b"},"objectRef":{"resource":"pods","namespace":"n","name":"p","subresource":"eviction","apiVersion":"v1"},"responseStatus":{"code":429},"annotations":{"authorization.k8s.io/decision":"forbid"}}"#;
        let read = parse_audit_log(&format!("{line}\n{{\"verb\":\"cr")).unwrap();
        assert_eq!(read.len(), 1);
        assert!(read[0].is_about("pods/eviction", "p"));
        assert_eq!((read[0].code, read[0].group.as_str(), read[0].forbidden), (429, "", true));
    }
}
