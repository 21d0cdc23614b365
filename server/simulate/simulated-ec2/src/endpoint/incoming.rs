//! Reads a request: its service, action and parameters; and builds responses.

use http::Response;
use http::request::Parts;
use serde_json::{Map, Value};

use crate::query::parameters::Parameters;
use crate::service::Service;

/// A call as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Incoming {
    pub(super) service: Service,
    pub(super) action: String,
    /// Access key; empty when the call is not signed.
    pub(super) caller: String,
    /// Host and port that the caller used.
    pub(super) host: String,
    /// Parameters of the form, or the fields of the JSON body as text.
    pub(super) parameters: Parameters,
    /// JSON body; null for a form.
    pub(super) body: Value,
}

/// Reads a request.
///
/// # Errors
/// What it lacks.
pub(super) fn read(parts: &Parts, body: &[u8]) -> Result<Incoming, &'static str> {
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let caller = header("authorization").and_then(access_key).unwrap_or_default().to_owned();
    let host = header("host").unwrap_or("localhost").to_owned();
    if let Some(target) = header("x-amz-target") {
        let (service, action) = Service::of_target(target).ok_or("X-Amz-Target names no service that is simulated")?;
        let body = serde_json::from_slice(body).map_err(|_| "the body is not JSON")?;
        return Ok(json(service, action, (caller, host), body));
    }
    let path = parts.uri.path();
    if path.starts_with("/clusters/") {
        let (action, body) = eks(path).ok_or("EKS has no such path here")?;
        return Ok(json(Service::Eks, action, (caller, host), body));
    }
    let parameters = Parameters::read(body);
    let action = parameters.get("Action").ok_or("there is no parameter Action and no X-Amz-Target")?.to_owned();
    let service = parameters.get("Version").and_then(Service::of_version).ok_or("Version is of no API here")?;
    Ok(Incoming { service, action, caller, host, parameters, body: Value::Null })
}

fn json(service: Service, action: &str, (caller, host): (String, String), body: Value) -> Incoming {
    Incoming { service, action: action.to_owned(), caller, host, parameters: Parameters::of_json(&body), body }
}

/// The access key of `AWS4-HMAC-SHA256 Credential=KEY/DATE/…`.
fn access_key(authorization: &str) -> Option<&str> {
    authorization.split_once("Credential=")?.1.split('/').next()
}

/// Action and parameters of an EKS path.
fn eks(path: &str) -> Option<(&'static str, Value)> {
    let segments: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
    let mut fields = Map::new();
    let names: Vec<&str> = segments.iter().map(String::as_str).collect();
    let action = match names.as_slice() {
        ["clusters", _] => "DescribeCluster",
        ["clusters", _, "access-entries", principal] => {
            fields.insert("principalArn".to_owned(), (*principal).into());
            "DescribeAccessEntry"
        }
        _ => return None,
    };
    fields.insert("name".to_owned(), names[1].into());
    Some((action, Value::Object(fields)))
}

/// Decodes percent escapes; a plus sign is literal in a path.
fn decode(segment: &str) -> String {
    let pair = segment.replace('+', "%2B");
    form_urlencoded::parse(pair.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default()
}

pub(super) fn plain(status: u16, body: &str) -> Response<String> {
    respond(status, "text/plain", body.to_owned())
}

pub(super) fn respond(status: u16, content_type: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert("content-type", http::HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_dispatched_by_target_path_or_version() {
        let read = |uri: &str, target: Option<&str>, body: &str| {
            let mut request = http::Request::builder().uri(uri);
            if let Some(target) = target {
                request = request.header("X-Amz-Target", target);
            }
            let signed =
                request.header("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20260102/eu-west-1/ec2/aws4");
            let (parts, ()) = signed.body(()).unwrap().into_parts();
            read(&parts, body.as_bytes()).map(|call| (call.service, call.action, call.caller, call.parameters))
        };
        let (service, action, caller, _) = read("/", None, "Action=CreateFleet&Version=2016-11-15").unwrap();
        assert_eq!((service, action.as_str(), caller.as_str()), (Service::Ec2, "CreateFleet", "AKID"));
        assert_eq!(read("/", None, "Action=GetInstanceProfile&Version=2010-05-08").unwrap().0, Service::Iam);
        let (service, action, _, parameters) = read("/", Some("AmazonSSM.GetParameter"), "{\"Name\":\"/a\"}").unwrap();
        assert_eq!((service, action.as_str(), parameters.get("Name")), (Service::Ssm, "GetParameter", Some("/a")));
        let path = "/clusters/blue/access-entries/arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fnode";
        let (service, action, _, parameters) = read(path, None, "").unwrap();
        assert_eq!((service, action.as_str()), (Service::Eks, "DescribeAccessEntry"));
        assert_eq!(
            (parameters.get("name"), parameters.get("principalArn")),
            (Some("blue"), Some("arn:aws:iam::1:role/node"))
        );
        for (uri, target, body) in
            [("/", None, "Action=A"), ("/", None, ""), ("/", Some("Unknown.Get"), "{}"), ("/clusters/a/b", None, "")]
        {
            assert!(read(uri, target, body).is_err(), "{uri} {target:?} {body}");
        }
    }
}
