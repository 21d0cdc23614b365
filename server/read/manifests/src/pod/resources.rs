//! Resource requests of a pod: containers, sidecars, init phases, pod level, overhead (Kubernetes:
//! pod resource calculation, KEP-753 and KEP-2837).

use std::collections::BTreeMap;

use model::resources::{CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, PODS};
use model::{Resources, Text, quantity};

use crate::{Cursor, syntax};

/// The effective request of the pod whose spec is at `at`, `pods: 1` included. `status` is the
/// pod's, if any: during an in-place resize, kube-scheduler reserves the larger of the requests and
/// the allocated resources. Containers that state nothing for a resource request what `defaults` have of it.
pub fn effective(at: &Cursor<'_>, status: Option<&Cursor<'_>>, defaults: &Resources) -> Resources {
    let held = status.map(AllocatedResources::read).unwrap_or_default();
    let defaults = below_pod_level(&at.at("resources"), defaults);
    let container_requests = |container: &Cursor<'_>| {
        let mut requests = container_requests(container);
        add_missing(&mut requests, &defaults);
        requests
    };
    let mut total = Resources::new();
    for container in at.at("containers").list() {
        total.add(&held.raise(&container, container_requests(&container)));
    }
    let containers = total.clone();
    let mut sidecars = Resources::new();
    let mut peak = Resources::new();
    for container in at.at("initContainers").list() {
        let mut phase = held.raise(&container, container_requests(&container));
        if is_sidecar(&container) {
            total.add(&phase);
            sidecars.add(&phase);
            phase = sidecars.clone();
        } else {
            phase.add(&sidecars);
        }
        peak.raise_to(&phase);
    }
    total.raise_to(&peak);
    for (name, amount) in pod_level(&at.at("resources"), &containers).iter() {
        total.set(name.clone(), amount);
    }
    total.add(&at.at("overhead").resources());
    total.set(PODS, 1);
    total
}

/// Resources allocated to the containers of a pod, by name (Kubernetes: KEP-1287).
#[derive(Debug, Default)]
struct AllocatedResources {
    containers: BTreeMap<Text, Resources>,
    /// The kubelet reports the resize as infeasible, so that the requests do not apply.
    infeasible: bool,
}

impl AllocatedResources {
    fn read(status: &Cursor<'_>) -> Self {
        let lists = ["containerStatuses", "initContainerStatuses"].map(|key| status.at(key).list());
        let read = |container: &Cursor<'_>| {
            let mut most = container.at("allocatedResources").resources();
            most.raise_to(&container.at("resources").at("requests").resources());
            Some((container.at("name").text()?, most))
        };
        let containers = lists.iter().flatten().filter_map(read).filter(|(_, most)| !most.is_empty()).collect();
        let infeasible = |condition: &Cursor<'_>| {
            condition.at("type").str() == Some("PodResizePending") && condition.at("reason").str() == Some("Infeasible")
        };
        let conditions = status.at("conditions").list();
        let infeasible = status.at("resize").str() == Some("Infeasible") || conditions.iter().any(infeasible);
        Self { containers, infeasible }
    }

    fn raise(&self, container: &Cursor<'_>, asked: Resources) -> Resources {
        let held = container.at("name").text().and_then(|name| self.containers.get(&name));
        match held {
            Some(held) if self.infeasible => held.clone(),
            Some(held) => {
                let mut most = asked;
                most.raise_to(held);
                most
            }
            None => asked,
        }
    }
}

/// Whether the init container at `at` runs as long as the ordinary containers (`restartPolicy:
/// Always`).
pub fn is_sidecar(at: &Cursor<'_>) -> bool {
    const POLICIES: [(&str, bool); 3] = [("Always", true), ("OnFailure", false), ("Never", false)];
    at.at("restartPolicy").one_of(&POLICIES).unwrap_or(false)
}

/// Requests of one container; an absent request defaults to the limit.
fn container_requests(at: &Cursor<'_>) -> Resources {
    let at = at.at("resources");
    check_names(&at.at("requests"));
    check_names(&at.at("limits"));
    let mut requests = at.at("requests").resources();
    let limits = at.at("limits").resources();
    check_limits(&at, &requests, &limits, true);
    add_missing(&mut requests, &limits);
    requests
}

/// Adds the amounts of `other` that `requests` lacks.
fn add_missing(requests: &mut Resources, other: &Resources) {
    for (name, amount) in other.iter() {
        if !requests.contains(name) {
            requests.set(name.clone(), amount);
        }
    }
}

/// The defaults of containers without those that the pod states for all of them at `at`.
fn below_pod_level(at: &Cursor<'_>, defaults: &Resources) -> Resources {
    let stated = [at.at("requests"), at.at("limits")].map(|place| place.map());
    let is_stated = |name: &str| stated.iter().flatten().any(|(known, _)| *known == name);
    defaults.iter().filter(|(name, _)| !is_stated(name)).map(|(name, amount)| (name.clone(), amount)).collect()
}

fn is_standard(name: &str) -> bool {
    name == CPU || name == MEMORY || name == EPHEMERAL_STORAGE || name.starts_with(HUGEPAGES_PREFIX)
}

/// Resources that cannot be overcommitted: devices and huge pages.
fn is_exact(name: &str) -> bool {
    name.starts_with(HUGEPAGES_PREFIX) || !is_standard(name)
}

/// Reports names that are neither standard nor qualified by a domain, and fractional numbers of
/// devices.
fn check_names(at: &Cursor<'_>) {
    for (name, amount) in at.map() {
        if is_standard(name) {
            continue;
        }
        if !name.contains('/') || !syntax::is_label_key(name) {
            let allowed =
                "cpu, memory, ephemeral-storage, hugepages-<size>, or a name with a domain such as nvidia.com/gpu";
            amount.error(format!("found the resource name {name:?}, allowed: {allowed}"));
            continue;
        }
        let written = amount.raw().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        let thousandths = written.as_deref().and_then(|text| quantity::parse(CPU, text).ok());
        if thousandths.is_some_and(|thousandths| thousandths % 1000 != 0) {
            amount.unexpected::<()>(written.as_deref().unwrap_or_default(), "a whole number");
        }
    }
}

fn check_limits(at: &Cursor<'_>, requests: &Resources, limits: &Resources, exact: bool) {
    for (_, entry) in at.at("requests").map() {
        let name: Text = last_key(&entry);
        let (request, limit) = (requests.get(&name), limits.get(&name));
        let limited = limits.contains(&name);
        if limited && request > limit {
            let shown = |amount| quantity::render(&name, amount);
            entry.error(format!("found {}, allowed: at most the limit of {}", shown(request), shown(limit)));
        } else if exact && is_exact(&name) && request != limit {
            entry.error(format!(
                "{name} cannot be overcommitted: set the limit, and the request equal to it or not at all"
            ));
        }
    }
}

fn last_key(at: &Cursor<'_>) -> Text {
    at.key().unwrap_or_default().into()
}

/// Requests of `spec.resources`: cpu, memory and huge pages. A limit without a request applies,
/// unless containers request that resource.
fn pod_level(at: &Cursor<'_>, containers: &Resources) -> Resources {
    let mut requests = at.at("requests").resources();
    let limits = at.at("limits").resources();
    check_limits(at, &requests, &limits, false);
    for place in [at.at("requests"), at.at("limits")] {
        for (name, entry) in place.map() {
            if !(name == CPU || name == MEMORY || name.starts_with(HUGEPAGES_PREFIX)) {
                entry.error(format!(
                    "found the resource name {name:?}, allowed at the level of the pod: cpu, memory, hugepages-<size>"
                ));
            }
        }
    }
    for (name, entry) in at.at("requests").map() {
        let (whole, parts) = (requests.get(name), containers.get(name));
        if whole < parts {
            let shown = |amount| quantity::render(name, amount);
            entry.error(format!(
                "found {}, allowed: at least what the containers request, {}",
                shown(whole),
                shown(parts)
            ));
        }
    }
    // Last, after requests were validated as written: an absent request defaults to that of the
    // containers, or to the limit.
    for (name, amount) in limits.iter() {
        if !requests.contains(name) {
            requests.set(name.clone(), if containers.contains(name) { containers.get(name) } else { amount });
        }
    }
    requests
}
