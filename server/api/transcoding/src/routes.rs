//! Which method a request calls.

use http::Method;
use http::uri::PathAndQuery;
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MethodDescriptor};

use crate::http_rule::{Binding, bindings};
use crate::parameters::FieldPath;
use crate::refusal::Refusal;
use crate::template::{Captured, PathTemplate, RequestPath};

/// Why a descriptor set gives no routes.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The bytes are no complete descriptor set.
    #[error("the descriptor set cannot be read: {0}")]
    Descriptors(#[from] prost_reflect::DescriptorError),
    /// The option of a method is wrong.
    #[error("the option google.api.http of {method} is wrong: {problem}")]
    Option {
        method: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Two methods have the same HTTP method and path.
    #[error("{first} and {second} have the same path {http_method} {path}: change one of them")]
    SamePath {
        /// Full name of the first method.
        first: String,
        /// Full name of the second method.
        second: String,
        http_method: Method,
        /// The template of the second method.
        path: String,
    },
}

/// What the body of a request is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum BodyRule {
    Nothing,
    Whole,
    Field(FieldDescriptor),
}

pub(crate) struct Route {
    http_method: Method,
    path: String,
    template: PathTemplate,
    pub(crate) body: BodyRule,
    pub(crate) method: MethodDescriptor,
    pub(crate) rpc_path: PathAndQuery,
}

/// The routes of all methods, those first that are preferred.
pub(crate) struct Routes(Vec<Route>);

impl Routes {
    pub(crate) fn new(pool: &DescriptorPool) -> Result<Self, RouteError> {
        let mut routes: Vec<Route> = Vec::new();
        for method in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
            let wrong = |problem| RouteError::Option { method: method.full_name().to_owned(), problem };
            for binding in bindings(&method).map_err(wrong)? {
                let route = Route::new(binding, &method).map_err(wrong)?;
                if let Some(same) = routes.iter().find(|other| other.is_same_path(&route)) {
                    return Err(RouteError::SamePath {
                        first: same.method.full_name().to_owned(),
                        second: method.full_name().to_owned(),
                        http_method: route.http_method,
                        path: route.path,
                    });
                }
                routes.push(route);
            }
        }
        routes.sort_by_cached_key(|route| route.template.preference());
        Ok(Self(routes))
    }

    /// The route of a request, and the texts that its path has.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Result<(&Route, Vec<Captured<'_>>), Refusal> {
        let unknown = || Refusal::unknown_path(path);
        let parsed = RequestPath::new(path).ok_or_else(unknown)?;
        let mut allowed = Vec::new();
        for route in &self.0 {
            let Some(captures) = route.template.matched(&parsed) else { continue };
            if route.http_method == *method {
                return Ok((route, captures));
            }
            allowed.push(route.http_method.as_str());
        }
        if allowed.is_empty() {
            return Err(unknown());
        }
        allowed.sort_unstable();
        allowed.dedup();
        Err(Refusal::method(method, path, allowed.join(", ")))
    }

    /// The HTTP method, the path template and the full name of the gRPC method of each route.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&Method, &str, &str)> {
        self.0.iter().map(|route| (&route.http_method, route.path.as_str(), route.method.full_name()))
    }
}

impl Route {
    fn new(binding: Binding, method: &MethodDescriptor) -> Result<Self, String> {
        if method.is_client_streaming() {
            return Err("a stream of requests has no path: remove the option".to_owned());
        }
        let template = PathTemplate::parse(&binding.path).map_err(|problem| format!("{}: {problem}", binding.path))?;
        for path in template.field_paths() {
            let field = FieldPath::resolve(&method.input(), path)?;
            if field.canonical() != path {
                return Err(format!(
                    "the path captures {path}: write the name of the proto file, {}",
                    field.canonical()
                ));
            }
            if !field.is_singular_text() {
                return Err(format!("the path captures {path}, which is not one text"));
            }
        }
        let body = body_rule(&binding.body, method)?;
        let service = method.parent_service();
        let rpc_path = PathAndQuery::try_from(format!("/{}/{}", service.full_name(), method.name()));
        let rpc_path = rpc_path.map_err(|error| error.to_string())?;
        let Binding { http_method, path, .. } = binding;
        Ok(Self { http_method, path, template, body, method: method.clone(), rpc_path })
    }

    fn is_same_path(&self, other: &Self) -> bool {
        self.http_method == other.http_method && self.template.matches_the_same(&other.template)
    }
}

fn body_rule(body: &str, method: &MethodDescriptor) -> Result<BodyRule, String> {
    match body {
        "" => Ok(BodyRule::Nothing),
        "*" => Ok(BodyRule::Whole),
        name => {
            let field = method.input().get_field_by_name(name);
            let field = field.ok_or_else(|| format!("{} has no field {name:?}", method.input().full_name()))?;
            let is_message = matches!(field.kind(), Kind::Message(_)) && !field.is_list() && !field.is_map();
            if is_message { Ok(BodyRule::Field(field)) } else { Err(format!("the body {name} is not a message")) }
        }
    }
}
