//! Pod sets of a request: a `PodTemplateSpec` each, read as the server reads those of workloads.

use fleetwright_proto::v1;
use manifests::cluster::workload::Template;
use manifests::pod::DEFAULT_SCHEDULER;
use manifests::pod::volumes::PodVolume;
use manifests::{Cursor, ObjectLocation, Problems, syntax};
use model::{Resources, Text};
use quote::{MAX_PODS, PodSet, validate};
use serde_json::{Value, json};
use tonic::Status;

use api_messages::errors::{FieldViolation, invalid};
use api_messages::json_struct::to_json;

/// Largest number of pod sets of a request.
pub(crate) const MAX_SETS: usize = 32;

/// The pod sets of a request.
///
/// Of a template, everything that scheduling evaluates is used. Scheduling gates are not: the pods are planned as they will
/// be without them. The priority is `spec.priority`, and 0 without one: PriorityClasses are objects of a cluster.
///
/// # Errors
/// `INVALID_ARGUMENT` with the path of every wrong field, such as `pod_sets[0].template.spec.containers[0].name`.
pub fn read(sets: &[v1::PodSet]) -> Result<Vec<PodSet>, Status> {
    read_fields(sets).map_err(|violations| invalid(&violations))
}

/// The pod sets of a message in the field `of` of a request.
///
/// # Errors
/// As for [`read`], with paths that begin with the field.
pub(crate) fn read_below(of: &str, sets: &[v1::PodSet]) -> Result<Vec<PodSet>, Status> {
    let below = |wrong: FieldViolation| FieldViolation { field: format!("{of}.{}", wrong.field), ..wrong };
    read_fields(sets).map_err(|violations| invalid(&violations.into_iter().map(below).collect::<Vec<_>>()))
}

fn read_fields(sets: &[v1::PodSet]) -> Result<Vec<PodSet>, Vec<FieldViolation>> {
    let whole = |problem: String| Err(vec![FieldViolation::new("pod_sets", problem)]);
    if sets.is_empty() {
        return whole("missing, but required".to_owned());
    }
    if sets.len() > MAX_SETS {
        return whole(format!("{} pod sets, allowed: at most {MAX_SETS}", sets.len()));
    }
    // The fields by which errors name the paths of the request.
    let request = json!({ "pod_sets": sets.iter().map(fields_of).collect::<Vec<Value>>() });
    let problems = Problems::default();
    let site = ObjectLocation { source: Text::from("request"), document: 0, object: None, problems: &problems };
    let read: Vec<Option<PodSet>> = Cursor::root(&request, &site).at("pod_sets").list().iter().map(read_one).collect();
    let errors = problems.into_errors();
    if !errors.is_empty() {
        return Err(errors.into_iter().map(|error| FieldViolation::new(error.path, error.message)).collect());
    }
    let read: Vec<PodSet> = read.into_iter().flatten().collect();
    validate(&read).map_err(|error| vec![FieldViolation::new("pod_sets", error.to_string())])?;
    Ok(read)
}

fn fields_of(set: &v1::PodSet) -> Value {
    json!({
        "name": set.name,
        "namespace": set.namespace,
        "count": set.count,
        "template": set.template.as_ref().map(to_json),
    })
}

/// The pod set at `at`; `None` only if an error was reported.
fn read_one(at: &Cursor<'_>) -> Option<PodSet> {
    let name = syntax::dns_label(&at.at("name"));
    let namespace = match at.at("namespace").str() {
        None | Some("") => Some("default"),
        Some(_) => syntax::dns_label(&at.at("namespace")),
    };
    let count = at.at("count").int_within(1, i64::from(MAX_PODS)).and_then(|count| u32::try_from(count).ok());
    let template = Template::read(&at.at("template"), &Resources::new());
    let spec = at.at("template").at("spec");
    report_unsupported(&template, &spec);
    Some(PodSet {
        name: name?.into(),
        namespace: namespace?.into(),
        shape: template.spec.shape(&template.labels, template.spec.priority.unwrap_or(0)),
        labels: template.labels,
        volumes: None,
        count: count?,
    })
}

/// Reports what the server plans no pod with, or cannot know of pods that do not exist.
fn report_unsupported(template: &Template, spec: &Cursor<'_>) {
    if *template.spec.scheduler != *DEFAULT_SCHEDULER {
        spec.at("schedulerName").error(format!(
            "found {:?}, allowed: {DEFAULT_SCHEDULER}; the server plans no pods of other schedulers",
            template.spec.scheduler
        ));
    }
    if let Some(node) = &template.spec.node_name {
        spec.at("nodeName").error(format!("found {node:?}, allowed: nothing; such pods need no place"));
    }
    if let Some(why) = &template.spec.invalid {
        let claims = spec.at("resourceClaims");
        if claims.exists() { claims.error(why.to_string()) } else { spec.error(why.to_string()) }
    }
    for volume in &template.spec.volumes {
        spec.at("volumes").error(match volume {
            PodVolume::Claim(claim) => format!(
                "the PersistentVolumeClaim {claim:?} belongs to one cluster and may bind the pods to a zone; leave it out, and \
                 require the zone by spec.nodeSelector"
            ),
            PodVolume::Ephemeral { volume, .. } => format!(
                "the ephemeral volume {volume:?} makes a PersistentVolumeClaim, whose zones depend on the cluster's \
                 StorageClass; leave it out"
            ),
            PodVolume::Ebs(id) => {
                format!("the EBS volume {id:?} is in one zone; leave it out, and require the zone by spec.nodeSelector")
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use model::PodShape;
    use serde_json::Map;

    use super::*;
    use api_messages::json_struct::from_json;

    fn template(spec: Value) -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
    }

    fn container(requests: Value) -> Value {
        json!({"containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]})
    }

    fn set(name: &str, count: i32, template: Value) -> v1::PodSet {
        let Value::Object(fields) = template else { panic!("a template is an object") };
        v1::PodSet { name: name.to_owned(), namespace: String::new(), count, template: Some(from_json(fields)) }
    }

    fn simple(name: &str, count: i32) -> v1::PodSet {
        set(name, count, template(container(json!({"cpu": 1}))))
    }

    fn violations(sets: &[v1::PodSet]) -> Vec<(String, String)> {
        let found = read_fields(sets).expect_err("it is refused");
        found.into_iter().map(|violation| (violation.field, violation.problem)).collect()
    }

    fn fields(sets: &[v1::PodSet]) -> Vec<String> {
        violations(sets).into_iter().map(|(field, _)| field).collect()
    }

    /// The spec of a simple pod with more fields.
    fn spec_with(more: Value) -> v1::PodSet {
        let (Value::Object(mut spec), Value::Object(more)) = (container(json!({"cpu": 1})), more) else {
            panic!("both are objects")
        };
        spec.extend(more);
        set("a", 1, template(Value::Object(spec)))
    }

    #[test]
    fn what_scheduling_evaluates_of_a_template_is_read_and_doubles_are_quantities() {
        let mut sent = set(
            "web",
            3,
            template(json!({
                "containers": [{"name": "main", "resources": {
                    "requests": {"cpu": 0.5, "memory": "1Gi"}, "limits": {"nvidia.com/gpu": 1.0}}}],
                "nodeSelector": {"zone": "a"},
                "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}],
                "priority": 7,
                "schedulingGates": [{"name": "example.com/gate"}],
            })),
        );
        sent.namespace = "shop".to_owned();
        let [read] = &read(&[sent]).expect("it is valid")[..] else { panic!("it is one set") };
        assert_eq!((&*read.name, &*read.namespace, read.count), ("web", "shop", 3));
        let PodShape { requests, node_selector, tolerations, spread, priority, .. } = &read.shape;
        // Half a CPU, 1 GiB, one GPU, and one pod.
        assert_eq!(requests.get("cpu"), 500);
        assert_eq!(requests.get("memory"), 1 << 30);
        assert_eq!((requests.get("nvidia.com/gpu"), requests.get("pods")), (1, 1));
        assert_eq!((node_selector.len(), tolerations.len(), spread.len(), *priority), (1, 1, 1, 7));
        assert_eq!(read.labels.get("app").map(|value| &**value), Some("web"));
        let [plain] = &super::read(&[simple("a", 1)]).expect("it is valid")[..] else { panic!("it is one set") };
        assert_eq!((&*plain.namespace, plain.shape.priority), ("default", 0));
    }

    #[test]
    fn every_wrong_field_is_named_by_its_path_in_the_request() {
        let bad = set(
            "Web",
            0,
            json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1x"}}}]}}),
        );
        assert_eq!(
            fields(&[simple("a", 1), bad]),
            ["pod_sets[1].count", "pod_sets[1].name", "pod_sets[1].template.spec.containers[0].resources.requests.cpu"]
        );
        let without = v1::PodSet { template: None, ..simple("a", 1) };
        assert!(fields(&[without]).contains(&"pod_sets[0].template".to_owned()));
        assert!(fields(&[set("a", 1, Value::Object(Map::new()))]).contains(&"pod_sets[0].template.spec".to_owned()));
    }

    #[test]
    fn what_belongs_to_one_cluster_is_refused_by_name() {
        let claim = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}]});
        let found = violations(&[spec_with(claim)]);
        assert_eq!(found[0].0, "pod_sets[0].template.spec.volumes");
        assert!(found[0].1.contains("PersistentVolumeClaim \"data-0\""), "{found:?}");
        let ephemeral = json!({"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]});
        assert!(violations(&[spec_with(ephemeral)])[0].1.contains("\"scratch\""));
        let empty_dir = json!({"volumes": [{"name": "scratch", "emptyDir": {}}]});
        assert!(read(&[spec_with(empty_dir)]).is_ok());
        for (field, value) in [
            ("nodeName", json!("n")),
            ("schedulerName", json!("volcano")),
            ("resourceClaims", json!([{"name": "gpu"}])),
        ] {
            assert_eq!(fields(&[spec_with(json!({field: value}))]), [format!("pod_sets[0].template.spec.{field}")]);
        }
    }

    #[test]
    fn numbers_of_sets_and_pods_are_limited_and_names_differ() {
        assert_eq!(violations(&[]), [("pod_sets".to_owned(), "missing, but required".to_owned())]);
        let many: Vec<v1::PodSet> = (0..33).map(|at| simple(&format!("a{at}"), 1)).collect();
        assert_eq!(violations(&many)[0].1, "33 pod sets, allowed: at most 32");
        assert!(read(&many[..32]).is_ok());
        assert!(read(&[simple("a", 5_000), simple("b", 5_000)]).is_ok());
        assert!(violations(&[simple("a", 5_000), simple("b", 5_001)])[0].1.contains("10001 pods, more than 10000"));
        assert_eq!(fields(&[simple("a", 10_001)]), ["pod_sets[0].count"]);
        assert!(violations(&[simple("a", 1), simple("a", 1)])[0].1.contains("two pod sets are named a"));
    }

    #[test]
    fn the_status_has_every_violation() {
        use tonic_types::StatusExt;
        let refused = read(&[simple("A", 0)]).expect_err("it is refused");
        let details = refused.get_error_details();
        assert_eq!(details.bad_request().map(|request| request.field_violations.len()), Some(2));
        assert_eq!(details.error_info().map(|info| info.reason.as_str()), Some("INVALID_FIELD"));
    }
}
