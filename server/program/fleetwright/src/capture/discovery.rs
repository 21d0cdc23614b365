//! Which of the kinds that a plan reads the API server has, and under which path.

use std::collections::BTreeSet;

use agent_kubernetes::api::Api;
use agent_kubernetes::error::{ApiError, ErrorKind};
use manifests::kinds::{KINDS, Kind, KindRow};
use serde::Deserialize;

/// A kind that the API server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listable {
    /// `apiVersion` of its objects.
    pub(super) api_version: String,
    pub(super) kind: &'static str,
    /// Resource and group, as `kubectl` writes them: `nodepools.karpenter.sh`.
    pub(super) plural: String,
    pub(super) path: String,
}

#[derive(Debug, Default)]
pub(super) struct Discovery {
    /// Those to list, in the order in which they are read.
    pub(super) listable: Vec<Listable>,
    /// Resources that the cluster does not have.
    pub(super) absent: Vec<String>,
}

/// The versions of a group (`APIGroup` of meta/v1).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    versions: Vec<Version>,
    preferred_version: Version,
}

#[derive(Debug, Clone, Deserialize)]
struct Version {
    version: String,
}

/// The resources of a version (`APIResourceList` of meta/v1).
#[derive(Debug, Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Debug, Deserialize)]
struct Resource {
    name: String,
    kind: String,
}

/// Kinds that `plan` reads. It ignores a CronJob, whose pods are created on schedule.
fn rows() -> impl Iterator<Item = &'static KindRow> {
    KINDS.iter().filter(|row| row.kind != Kind::CronJob)
}

/// The kinds of `--skip`, by kind or resource.
///
/// # Errors
/// A word is neither.
pub(super) fn skipped_kinds(words: &[String]) -> Result<BTreeSet<Kind>, String> {
    words.iter().map(|word| skipped_kind(word)).collect()
}

fn skipped_kind(word: &str) -> Result<Kind, String> {
    let resource = word.split('.').next().unwrap_or(word).to_lowercase();
    let found = rows().find(|row| row.name.to_lowercase() == resource || plural(row.name) == resource);
    found.map(|row| row.kind).ok_or_else(|| {
        let known: Vec<String> = rows().map(|row| plural(row.name)).collect();
        format!("--skip {word}: no such kind; capture reads {}", known.join(", "))
    })
}

/// Name of the resource of a kind that is not installed, as Kubernetes forms it.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if kind.ends_with('s') { format!("{kind}es") } else { format!("{kind}s") }
}

fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl Discovery {
    /// Asks the API server which kinds it has.
    ///
    /// # Errors
    /// A request fails. A group or a version that does not exist is no failure.
    pub(super) async fn read(api: &Api, skipped: &BTreeSet<Kind>) -> Result<Self, ApiError> {
        let mut discovery = Self::default();
        for row in rows().filter(|row| !skipped.contains(&row.kind)) {
            match find(api, row).await? {
                Some(listable) => discovery.listable.push(listable),
                None => discovery.absent.push(qualified(&plural(row.name), row.group)),
            }
        }
        Ok(discovery)
    }
}

/// The kind in the first version that has it: versions that `plan` reads come first.
async fn find(api: &Api, row: &KindRow) -> Result<Option<Listable>, ApiError> {
    let group = if row.group.is_empty() { None } else { present(api.get(&format!("/apis/{}", row.group)).await)? };
    if !row.group.is_empty() && group.is_none() {
        return Ok(None);
    }
    for version in versions(row, group.as_ref()) {
        let root =
            if row.group.is_empty() { format!("/api/{version}") } else { format!("/apis/{}/{version}", row.group) };
        let resources: Option<Resources> = present(api.get(&root).await)?;
        let resource = resources.and_then(|list| resource_of(row.name, list));
        if let Some(resource) = resource {
            return Ok(Some(Listable {
                api_version: root.trim_start_matches("/apis/").trim_start_matches("/api/").to_owned(),
                kind: row.name,
                plural: qualified(&resource, row.group),
                path: format!("{root}/{resource}"),
            }));
        }
    }
    Ok(None)
}

/// Versions of the group in the order of preference.
fn versions(row: &KindRow, group: Option<&Group>) -> Vec<String> {
    let Some(group) = group else { return row.versions.iter().map(|version| (*version).to_owned()).collect() };
    let offered = |version: &str| group.versions.iter().any(|offered| offered.version == version);
    let read = row.versions.iter().filter(|version| offered(version)).map(|version| (*version).to_owned());
    read.chain([group.preferred_version.version.clone()]).collect()
}

/// Name of the resource whose objects have this kind. Names with a slash are subresources.
fn resource_of(kind: &str, list: Resources) -> Option<String> {
    let found = list.resources.into_iter().find(|resource| resource.kind == kind && !resource.name.contains('/'));
    found.map(|resource| resource.name)
}

/// `None` for a group or a version that the API server does not have.
fn present<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(preferred: &str, offered: &[&str]) -> Group {
        let version = |version: &str| Version { version: version.to_owned() };
        Group { versions: offered.iter().map(|name| version(name)).collect(), preferred_version: version(preferred) }
    }

    fn row(name: &str) -> &'static KindRow {
        rows().find(|row| row.name == name).expect("a kind")
    }

    #[test]
    fn a_version_that_plan_reads_comes_before_the_preferred_one() {
        let order = |name: &str, group: Option<&Group>| versions(row(name), group);
        assert_eq!(order("Pod", None), ["v1"]);
        // Karpenter between v1beta1 and v1 stores v1beta1 and offers both.
        assert_eq!(order("NodePool", Some(&group("v1beta1", &["v1beta1", "v1"]))), ["v1", "v1beta1"]);
        // What only an older version has is converted by `plan`.
        assert_eq!(order("NodePool", Some(&group("v1beta1", &["v1beta1"]))), ["v1beta1"]);
    }

    #[test]
    fn a_kind_is_skipped_by_its_name_or_its_resource() {
        let skipped = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            skipped_kinds(&words)
        };
        assert_eq!(
            skipped(&["CSINode", "priorityclasses", "nodeoverlays.karpenter.sh"]).map(|kinds| kinds.len()),
            Ok(3)
        );
        let refused = skipped(&["secrets"]).expect_err("no plan reads secrets");
        assert!(refused.starts_with("--skip secrets: no such kind; capture reads pods, deployments, "), "{refused}");
    }

    #[test]
    fn subresources_are_no_resources() {
        let resource = |name: &str| Resource { name: name.to_owned(), kind: "Pod".to_owned() };
        let list = Resources { resources: vec![resource("pods/binding"), resource("pods")] };
        assert_eq!(resource_of("Pod", list).as_deref(), Some("pods"));
    }
}
