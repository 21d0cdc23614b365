//! The pods of a quote or a hold: those of manifests, or equal ones by flags.

use clap::Args;
use fleetwright_proto::v1;
use manifests::Source;
use manifests::document::{Detail, ValueBudget, parse};
use serde_json::{Map, Value, json};

use api_messages::json_struct::from_json;
use command::exit::Failure;
use command::sources;

/// Name of the pod set of equal pods, which have none of their own.
const EQUAL_PODS: &str = "pods";

/// The pods.
#[derive(Debug, Args)]
pub(crate) struct PodFlags {
    /// File or directory with manifests, or - for standard input; repeatable
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "PATH",
        required_unless_present = "pods",
        conflicts_with = "pods"
    )]
    filenames: Vec<String>,
    /// Number of equal pods
    #[arg(long, value_name = "NUMBER", requires = "cpu", value_parser = clap::value_parser!(i32).range(1..))]
    pods: Option<i32>,
    /// CPU that each of them requests, such as 500m or 2
    #[arg(long, value_name = "QUANTITY", requires = "pods")]
    cpu: Option<String>,
    /// Memory that each of them requests, such as 512Mi or 4Gi
    #[arg(long, value_name = "QUANTITY", requires = "pods")]
    memory: Option<String>,
}

impl PodFlags {
    /// A pod set for each object that has pods, or one for the equal pods.
    ///
    /// # Errors
    /// What is wrong with the manifests.
    pub(crate) fn pod_sets(&self) -> Result<Vec<v1::PodSet>, Failure> {
        let Some(count) = self.pods else {
            return of_sources(&sources::open(&self.filenames)?);
        };
        let mut requests = Map::new();
        for (name, amount) in [("cpu", &self.cpu), ("memory", &self.memory)] {
            if let Some(amount) = amount {
                requests.insert(name.to_owned(), Value::from(amount.as_str()));
            }
        }
        let spec = json!({"containers": [{"name": "main", "resources": {"requests": requests}}]});
        Ok(vec![pod_set(EQUAL_PODS.to_owned(), String::new(), count, json!({ "spec": spec }))?])
    }
}

/// `3 pods of web`, and `3 pods` of those that flags describe, which have no name.
pub(super) fn counted_pods(pods: &v1::PodSetCount) -> String {
    let noun = if pods.pods == 1 { "pod" } else { "pods" };
    if pods.pod_set == EQUAL_PODS {
        format!("{} {noun}", pods.pods)
    } else {
        format!("{} {noun} of {}", pods.pods, pods.pod_set)
    }
}

/// A pod set for each object that has pods.
fn of_sources(sources: &[Source]) -> Result<Vec<v1::PodSet>, Failure> {
    let (budget, mut sets) = (ValueBudget::default(), Vec::new());
    for source in sources {
        let documents = parse(source, &budget, Detail::Planning).map_err(Failure::input)?;
        for document in &documents {
            sets.push(of_object(&document.value).map_err(|problem| {
                Failure::refused(format!("{}, document {}: {problem}", document.source, document.number))
            })??);
        }
    }
    if sets.is_empty() {
        return Err(Failure::refused(
            "the manifests have no pods; pass a Pod, a Deployment, a StatefulSet or a Job by -f",
        ));
    }
    Ok(sets)
}

/// The pod set of an object, or why it has none.
fn of_object(object: &Value) -> Result<Result<v1::PodSet, Failure>, String> {
    let text = |at: &Value| at.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let (kind, name, namespace) = (text(&object["kind"]), text(&metadata["name"]), text(&metadata["namespace"]));
    let (count, template) = match kind.as_str() {
        "Pod" => (&Value::Null, json!({"metadata": metadata, "spec": object["spec"]})),
        "PodTemplate" => (&Value::Null, object["template"].clone()),
        "Deployment" | "ReplicaSet" | "StatefulSet" => {
            (&object["spec"]["replicas"], object["spec"]["template"].clone())
        }
        "Job" => (&object["spec"]["parallelism"], object["spec"]["template"].clone()),
        other => {
            return Err(format!(
                "the kind {other:?} has no pods to quote; pass a Pod, a Deployment, a StatefulSet or a Job"
            ));
        }
    };
    let count = match count {
        Value::Null => 1,
        stated => stated
            .as_i64()
            .and_then(|count| i32::try_from(count).ok())
            .filter(|count| *count > 0)
            .ok_or_else(|| format!("{kind}/{name} states {stated} pods, allowed: 1 or more"))?,
    };
    Ok(pod_set(name, namespace, count, template))
}

fn pod_set(name: String, namespace: String, count: i32, template: Value) -> Result<v1::PodSet, Failure> {
    let Value::Object(fields) = template else {
        return Err(Failure::refused(format!("{name} has no pod template")));
    };
    Ok(v1::PodSet { name, namespace, count, template: Some(from_json(fields)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { name: "x.yaml".to_owned(), bytes: text.as_bytes().to_vec() }
    }

    #[test]
    fn manifests_are_pod_sets_with_their_numbers() {
        let read = of_sources(&[source(
            "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: 3\n  template:\n    \
             metadata: {labels: {app: web}}\n    spec: {containers: [{name: main, resources: {requests: {cpu: 1}}}]}\n---\n\
             kind: Pod\napiVersion: v1\nmetadata: {name: one}\nspec: {containers: [{name: main}]}\n",
        )]);
        let found: Vec<(String, String, i32)> =
            read.expect("it is valid").into_iter().map(|set| (set.name, set.namespace, set.count)).collect();
        let expected = [("web", "shop", 3), ("one", "", 1)];
        assert_eq!(found, expected.map(|(name, namespace, count)| (name.to_owned(), namespace.to_owned(), count)));
    }

    #[test]
    fn pods_are_counted_with_their_noun_and_without_a_name_that_nobody_gave() {
        let pods = |pods, pod_set: &str| counted_pods(&v1::PodSetCount { pod_set: pod_set.to_owned(), pods });
        assert_eq!([pods(3, "pods"), pods(1, "web"), pods(2, "web")], ["3 pods", "1 pod of web", "2 pods of web"]);
    }

    #[test]
    fn what_has_no_pods_is_refused_with_its_place() {
        let refused = |text: &str| of_sources(&[source(text)]).expect_err("it is refused").messages[0].clone();
        let service = refused("kind: Service\napiVersion: v1\nmetadata: {name: a}\n");
        assert!(service.starts_with("x.yaml, document 1: the kind \"Service\" has no pods"), "{service}");
        let none =
            refused("kind: Job\napiVersion: batch/v1\nmetadata: {name: a}\nspec: {parallelism: 0, template: {}}\n");
        assert!(none.contains("Job/a states 0 pods"), "{none}");
        assert!(refused("").contains("the manifests have no pods"));
    }
}
