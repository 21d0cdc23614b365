//! Names of resources: `clusters/{cluster}/nodes/{node}`. Ids are names of Kubernetes objects, which have no slash.

use model::{ClusterName, PodKey};
use tonic::Status;

use crate::errors;

/// Name of what concerns the server that answers.
pub const SERVER_INFO: &str = "serverInfo";

/// Longest name that is read, in bytes: four Kubernetes names of 253 characters and the collections between them.
const MAX_NAME_BYTES: usize = 1_100;

/// `clusters/{cluster}`.
pub fn cluster(cluster: &str) -> String {
    format!("clusters/{cluster}")
}

/// `clusters/{cluster}/{collection}/{id}`.
pub fn child(cluster: &str, collection: &str, id: &str) -> String {
    format!("clusters/{cluster}/{collection}/{id}")
}

/// `clusters/{cluster}/namespaces/{namespace}`.
pub fn namespace(cluster: &str, namespace: &str) -> String {
    child(cluster, "namespaces", namespace)
}

/// `clusters/{cluster}/namespaces/{namespace}/pods/{pod}`.
pub fn pod(cluster: &str, pod: &PodKey) -> String {
    format!("clusters/{cluster}/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// The ids of `name`, whose collections are those of `pattern`: `clusters/*/nodes/*`.
///
/// # Errors
/// `INVALID_ARGUMENT` if the name has another form.
fn ids<'n, const N: usize>(field: &str, name: &'n str, pattern: &str) -> Result<[&'n str; N], Status> {
    let refused = || {
        let shown: String = name.chars().take(100).collect();
        errors::invalid_argument(field, format!("{field} is {shown:?}; it has the form {pattern}"))
    };
    if name.len() > MAX_NAME_BYTES || name.split('/').count() != pattern.split('/').count() {
        return Err(refused());
    }
    let mut found = Vec::with_capacity(N);
    for (part, expected) in name.split('/').zip(pattern.split('/')) {
        match expected {
            "*" if !part.is_empty() => found.push(part),
            _ if part == expected => {}
            _ => return Err(refused()),
        }
    }
    found.try_into().map_err(|_| refused())
}

/// The cluster that `name` names.
///
/// # Errors
/// `INVALID_ARGUMENT` if the name has another form.
pub fn parse_cluster(name: &str) -> Result<ClusterName, Status> {
    let [cluster] = ids("name", name, "clusters/*")?;
    Ok(cluster.into())
}

/// The field of a request with what a freeze freezes.
const TARGET: &str = "freeze.target";

/// The cluster that the target of a freeze names.
///
/// # Errors
/// `INVALID_ARGUMENT` if the name has another form.
pub fn parse_target_cluster(target: &str) -> Result<ClusterName, Status> {
    let [cluster] = ids(TARGET, target, "clusters/*")?;
    Ok(cluster.into())
}

/// The cluster and the NodePool that the target of a freeze names.
///
/// # Errors
/// `INVALID_ARGUMENT` if the name has another form.
pub fn parse_target_pool(target: &str) -> Result<(ClusterName, String), Status> {
    let [cluster, pool] = ids(TARGET, target, "clusters/*/pools/*")?;
    Ok((cluster.into(), pool.to_owned()))
}

/// The cluster that `parent` names; `None` for all clusters, `clusters/-`.
///
/// # Errors
/// `INVALID_ARGUMENT` if the name has another form.
pub fn parse_parent(parent: &str) -> Result<Option<ClusterName>, Status> {
    let [cluster] = ids("parent", parent, "clusters/*")?;
    Ok((cluster != "-").then(|| cluster.into()))
}

/// The cluster and the namespace that the `parent` of pods names; `None` for all of them: `clusters/-/namespaces/-`.
///
/// # Errors
/// `INVALID_ARGUMENT` if the name has another form.
pub fn parse_namespace_parent(parent: &str) -> Result<(Option<ClusterName>, Option<String>), Status> {
    let [cluster, namespace] = ids("parent", parent, "clusters/*/namespaces/*")?;
    Ok(((cluster != "-").then(|| cluster.into()), (namespace != "-").then(|| namespace.to_owned())))
}

/// # Errors
/// `INVALID_ARGUMENT` for another name than that of the server's information. A message without a name asks for it too.
pub fn check_server_info(name: &str) -> Result<(), Status> {
    if name.is_empty() { Ok(()) } else { ids::<0>("name", name, SERVER_INFO).map(drop) }
}

/// The cluster and the id of a resource in `collection`.
///
/// # Errors
/// `INVALID_ARGUMENT` if the name has another form.
pub fn parse_child(name: &str, collection: &str) -> Result<(ClusterName, String), Status> {
    let [cluster, id] = ids("name", name, &format!("clusters/*/{collection}/*"))?;
    Ok((cluster.into(), id.to_owned()))
}

/// The cluster of a pod, and the pod.
///
/// # Errors
/// `INVALID_ARGUMENT` if the name has another form.
pub fn parse_pod(name: &str) -> Result<(ClusterName, PodKey), Status> {
    let [cluster, namespace, pod] = ids("name", name, "clusters/*/namespaces/*/pods/*")?;
    Ok((cluster.into(), PodKey { namespace: namespace.into(), name: pod.into() }))
}

/// The number of a resource of a collection without parent.
///
/// # Errors
/// `INVALID_ARGUMENT` if the name has another form, or the id is no number.
pub fn parse_number(name: &str, collection: &str) -> Result<i64, Status> {
    let [id] = ids("name", name, &format!("{collection}/*"))?;
    id.parse().map_err(|_| not_a_number(name, id))
}

pub fn not_a_number(name: &str, id: &str) -> Status {
    errors::invalid_argument("name", format!("{id:?} in name {name:?} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let key = PodKey { namespace: "shop".into(), name: "web-1".into() };
        assert_eq!(parse_pod(&pod("prod", &key)).unwrap(), ("prod".into(), key));
        assert_eq!(parse_cluster(&cluster("prod")).unwrap(), ClusterName::from("prod"));
        let node = child("prod", "nodes", "ip-10-0-0-1.eu-west-1.compute.internal");
        let expected = ("prod".into(), "ip-10-0-0-1.eu-west-1.compute.internal".to_owned());
        assert_eq!(parse_child(&node, "nodes").unwrap(), expected);
        assert_eq!(parse_parent("clusters/-").unwrap(), None);
        let of_namespace = (Some("prod".into()), Some("shop".to_owned()));
        assert_eq!(parse_namespace_parent(&namespace("prod", "shop")).unwrap(), of_namespace);
        assert_eq!(parse_namespace_parent("clusters/-/namespaces/-").unwrap(), (None, None));
        assert!(parse_namespace_parent("clusters/prod").is_err());
        assert!(check_server_info("serverInfo").is_ok() && check_server_info("clusters/a").is_err());
        assert_eq!(parse_number("freezes/7", "freezes").unwrap(), 7);
    }

    #[test]
    fn a_name_of_another_form_is_refused_with_the_form() {
        for name in ["", "prod", "clusters/", "clusters/a/b", "nodes/a", "clusters/a/", "/clusters/a"] {
            let refused = parse_cluster(name).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{name}");
            assert!(refused.message().ends_with("it has the form clusters/*"), "{refused}");
        }
        assert!(parse_child("clusters/a/pools/b", "nodes").is_err());
        assert!(parse_cluster(&format!("clusters/{}", "a".repeat(2_000))).is_err());
        assert!(parse_number("freezes/x", "freezes").unwrap_err().message().contains("not a number"));
    }
}
