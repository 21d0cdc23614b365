//! Finds the pod or node that `--explain` or `--explain-node` names, and what may have been meant.

use model::Pod;
use model::input::PlanningInput;
use model::plan::Plan;

use render::names::natural_order;
use settings::suggest::nearest;

/// Maximum number of names that a message lists before it counts the rest.
const LISTED: usize = 10;

/// The namespace of a pod that is named without one.
const DEFAULT: &str = "default";

/// The index of the pod that `wanted` names: `namespace/pod`, or a pod in the namespace `default`.
///
/// # Errors
/// What is named instead: a pod of another namespace, a workload, or nothing.
pub(super) fn find_pod(pods: &[Pod], wanted: &str) -> Result<u32, String> {
    let (namespace, name) = wanted.split_once('/').map_or((None, wanted), |(namespace, name)| (Some(namespace), name));
    let inside = namespace.unwrap_or(DEFAULT);
    let found = pods.iter().position(|pod| pod.namespace.as_ref() == inside && pod.name.as_ref() == name);
    if let Some(index) = found.and_then(|index| u32::try_from(index).ok()) {
        return Ok(index);
    }
    let allowed = |pod: &&Pod| namespace.is_none_or(|namespace| pod.namespace.as_ref() == namespace);
    let head = format!("--explain {wanted}: no pod {name} of the plan is in the namespace {inside}");
    let same_name = pods.iter().filter(|pod| pod.name.as_ref() == name);
    let of_workload = pods.iter().filter(allowed).filter(|pod| workload_name(pod) == name);
    let alternatives = [keys(same_name), keys(of_workload)];
    if let [elsewhere, _] = &alternatives
        && !elsewhere.is_empty()
    {
        return Err(format!("{head}; did you mean {}?", list(elsewhere)));
    }
    if let [_, replicas] = &alternatives
        && !replicas.is_empty()
    {
        return Err(format!("--explain {wanted}: {name} is a workload; write one of its pods: {}", list(replicas)));
    }
    Err(match nearest_pod(pods, namespace, name) {
        Some(near) => format!("{head}; did you mean {near}?"),
        None if pods.is_empty() => {
            format!("--explain {wanted}: the plan has no pod; only pods that are planned are explained")
        }
        None => format!("{head}; the plan has {}", list(&keys(pods.iter()))),
    })
}

/// The pod with the nearest name in the namespace; in all namespaces if none is named or the named one has no pod. Namespaces are not
/// compared, because a common namespace would make different names similar.
fn nearest_pod(pods: &[Pod], namespace: Option<&str>, name: &str) -> Option<String> {
    let inside = namespace.unwrap_or(DEFAULT);
    let (within, elsewhere): (Vec<&Pod>, Vec<&Pod>) = pods.iter().partition(|pod| pod.namespace.as_ref() == inside);
    let near = |pods: &[&Pod]| {
        let found = nearest(name, pods.iter().map(|pod| pod.name.to_string()))?;
        pods.iter().find(|pod| *pod.name == *found).map(|pod| pod.key().to_string())
    };
    let may_be_elsewhere = namespace.is_none() || within.is_empty();
    near(&within).or_else(|| near(&elsewhere).filter(|_| may_be_elsewhere))
}

/// The name in `Kind/name`, the workload of a pod.
fn workload_name(pod: &Pod) -> &str {
    pod.workload.split_once('/').map_or(pod.workload.as_ref(), |(_, name)| name)
}

/// `namespace/name` of the pods, in natural order.
fn keys<'p>(pods: impl Iterator<Item = &'p Pod>) -> Vec<String> {
    let mut keys: Vec<String> = pods.map(|pod| pod.key().to_string()).collect();
    keys.sort_by(|one, other| natural_order(one, other));
    keys
}

fn list(names: &[String]) -> String {
    let first = names.iter().take(LISTED).map(String::as_str).collect::<Vec<&str>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The message for a node that neither the plan nor the input has.
pub(super) fn no_such_node(wanted: &str, input: &PlanningInput, plan: &Plan) -> String {
    let planned = plan.nodes.iter().chain(&plan.static_nodes).map(|node| node.name.to_string());
    let mut planned: Vec<String> = planned.collect();
    planned.sort_by(|one, other| natural_order(one, other));
    let head = format!("--explain-node {wanted}: no such node in the input or the plan");
    let existing = input.nodes.iter().map(|node| node.name.to_string());
    // Names that differ by their number are different nodes, and no typing errors.
    let same_number = |name: &String| digits(name) == digits(wanted);
    if let Some(near) = nearest(wanted, planned.iter().cloned().chain(existing).filter(same_number)) {
        return format!("{head}; did you mean {near}?");
    }
    match planned.as_slice() {
        [] => format!("{head}; the plan launches no node"),
        names => format!("{head}; the plan launches {}", list(names)),
    }
}

fn digits(name: &str) -> String {
    name.chars().filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, name: &str, workload: &str) -> Pod {
        Pod {
            namespace: namespace.into(),
            name: name.into(),
            shape: 0,
            labels: 0,
            volumes: None,
            created: None,
            workload: workload.into(),
            moved_from: None,
            invalid: None,
        }
    }

    fn pods() -> Vec<Pod> {
        let web = (0..12).map(|number| pod("shop", &format!("web-{number}"), "Deployment/web"));
        [pod("default", "api", "Pod/api"), pod("default", "job-0", "Job/job")].into_iter().chain(web).collect()
    }

    #[test]
    fn a_pod_is_found_by_its_full_name_and_in_the_default_namespace_by_its_name() {
        assert_eq!(find_pod(&pods(), "shop/web-3"), Ok(5));
        assert_eq!(find_pod(&pods(), "api"), Ok(0));
    }

    #[test]
    fn what_is_not_found_is_answered_with_what_there_is() {
        let message = |wanted: &str| find_pod(&pods(), wanted).unwrap_err();
        assert_eq!(
            message("web-0"),
            "--explain web-0: no pod web-0 of the plan is in the namespace default; did you mean shop/web-0?"
        );
        assert_eq!(
            message("shop/web"),
            "--explain shop/web: web is a workload; write one of its pods: shop/web-0, shop/web-1, shop/web-2, shop/web-3, \
             shop/web-4, shop/web-5, shop/web-6, shop/web-7, shop/web-8, shop/web-9 and 2 more"
        );
        assert!(message("default/apo").ends_with("did you mean default/api?"), "{}", message("default/apo"));
        // `default/gen` is three edits of eleven letters away, `gen` three of five.
        let other = find_pod(&[pod("default", "gen", "Pod/gen")], "web-0").unwrap_err();
        assert!(other.ends_with("in the namespace default; the plan has default/gen"), "{other}");
        assert!(message("shop/wep-7").ends_with("did you mean shop/web-7?"), "{}", message("shop/wep-7"));
        assert!(message("wep-7").ends_with("did you mean shop/web-7?"), "{}", message("wep-7"));
        assert!(message("shpo/web-7").ends_with("did you mean shop/web-7?"), "{}", message("shpo/web-7"));
        assert!(message("x/y").contains("the plan has default/api, default/job-0, shop/web-0, "), "{}", message("x/y"));
        assert!(find_pod(&[], "a").unwrap_err().contains("the plan has no pod"));
    }
}
