//! The `google.api.http` option of a method. Its messages are declared here, so that descriptors are read whether or not
//! they include the file of the option.

use http::Method;
use prost::Message;
use prost_reflect::MethodDescriptor;

/// The fields of `google.protobuf.MethodOptions` that matter.
#[derive(Clone, PartialEq, Message)]
struct MethodOptions {
    #[prost(message, optional, tag = "72295728")]
    http: Option<HttpRule>,
}

#[derive(Clone, PartialEq, Message)]
struct HttpRule {
    #[prost(oneof = "Pattern", tags = "2, 3, 4, 5, 6, 8")]
    pattern: Option<Pattern>,
    #[prost(string, tag = "7")]
    body: String,
    #[prost(string, tag = "12")]
    response_body: String,
    #[prost(message, repeated, tag = "11")]
    additional_bindings: Vec<HttpRule>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Pattern {
    #[prost(string, tag = "2")]
    Get(String),
    #[prost(string, tag = "3")]
    Put(String),
    #[prost(string, tag = "4")]
    Post(String),
    #[prost(string, tag = "5")]
    Delete(String),
    #[prost(string, tag = "6")]
    Patch(String),
    #[prost(message, tag = "8")]
    Custom(CustomPattern),
}

#[derive(Clone, PartialEq, Message)]
struct CustomPattern {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    path: String,
}

/// One way to call a method over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) http_method: Method,
    pub(crate) path: String,
    /// A field, `*`, or nothing.
    pub(crate) body: String,
}

/// The bindings of `method`, or what is wrong with its option.
pub(crate) fn bindings(method: &MethodDescriptor) -> Result<Vec<Binding>, String> {
    let options = method.options().encode_to_vec();
    let options = MethodOptions::decode(options.as_slice()).map_err(|error| error.to_string())?;
    let Some(rule) = options.http else { return Ok(Vec::new()) };
    if rule.additional_bindings.iter().any(|rule| !rule.additional_bindings.is_empty()) {
        return Err("additional_bindings have additional_bindings: put all of them into the rule".to_owned());
    }
    std::iter::once(&rule).chain(&rule.additional_bindings).map(binding).collect()
}

fn binding(rule: &HttpRule) -> Result<Binding, String> {
    if !rule.response_body.is_empty() {
        return Err("response_body is not supported: the response is the whole message".to_owned());
    }
    let (http_method, path) = match &rule.pattern {
        Some(Pattern::Get(path)) => (Method::GET, path),
        Some(Pattern::Put(path)) => (Method::PUT, path),
        Some(Pattern::Post(path)) => (Method::POST, path),
        Some(Pattern::Delete(path)) => (Method::DELETE, path),
        Some(Pattern::Patch(path)) => (Method::PATCH, path),
        Some(Pattern::Custom(custom)) => {
            let method = Method::from_bytes(custom.kind.as_bytes());
            let problem = |_| format!("the custom kind {:?} is not an HTTP method", custom.kind);
            (method.map_err(problem)?, &custom.path)
        }
        None => return Err("the rule has no path".to_owned()),
    };
    if !rule.body.is_empty() && http_method == Method::GET {
        return Err("a GET has a body: use the query".to_owned());
    }
    Ok(Binding { http_method, path: path.clone(), body: rule.body.clone() })
}
