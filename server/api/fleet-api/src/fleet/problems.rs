//! What is wrong in the fleet now, each with the command that shows more of it or ends it. All of it is read from resources
//! that the API has anyway; nothing is decided here.

use std::collections::BTreeMap;

use fleetwright_proto::v1;
use fleetwright_proto::v1::Severity::{Critical, Info, Warning};

use api_messages::{enum_values, from_millis, resource_names as names, to_millis};

/// Time after which a pod that waits is a problem, in milliseconds: a node is launched and joins in a minute or two.
pub(super) const PATIENCE_MS: i64 = 5 * 60_000;

/// Lists the pods of the agent, in the namespace of `deploy/agent`.
const AGENT_PODS: &str = "kubectl get pods -n fleetwright-system -l app.kubernetes.io/name=fleetwright-agent";

/// Connects a cluster (`deploy/README.md`).
const CONNECT: &str = "kubectl apply --server-side -f deploy/crds -f deploy/agent/namespace.yaml -f deploy/agent/rbac.yaml && \
     kubectl apply --server-side -k deploy/agent/run";

#[derive(Debug)]
pub(super) struct Facts {
    pub(super) clusters: Vec<v1::Cluster>,
    /// NodePools from which nothing can be launched.
    pub(super) pools: Vec<v1::Pool>,
    /// Pods that wait, those first that were created first.
    pub(super) pods: Vec<v1::Pod>,
    pub(super) offerings: Vec<v1::Offering>,
    pub(super) freezes: Vec<v1::Freeze>,
    /// What the replicas depend on and does not work.
    pub(super) outages: Vec<v1::Problem>,
    /// Whether these are the facts of the whole fleet.
    pub(super) is_fleet: bool,
}

/// The problems of the facts at a time in milliseconds since 1970, in no order. Their names differ.
pub(super) fn problems(facts: &Facts, now_ms: i64) -> Vec<v1::Problem> {
    let mut found: Vec<v1::Problem> = facts.outages.clone();
    found.extend((facts.is_fleet && facts.clusters.is_empty()).then(no_cluster));
    for cluster in &facts.clusters {
        found.extend(undecided(cluster));
        found.extend(cluster.guardrails.iter().flat_map(|guardrails| held_back(cluster, guardrails)));
        found.extend(surroundings(cluster));
    }
    found.extend(facts.pools.iter().map(pool_not_ready));
    found.extend(waiting_pods(&facts.pods, now_ms));
    found.extend(shortages(&facts.offerings, now_ms));
    found.extend(facts.freezes.iter().map(freeze));
    found
}

/// What an operator may paste into a shell; empty where there is nothing to type.
struct Command(String);

impl From<&str> for Command {
    fn from(command: &str) -> Self {
        Self(command.to_owned())
    }
}

impl Command {
    /// The command that `make` makes of these names. There is none for a name that is not one word of a shell: agents report
    /// names, and no Kubernetes object has such a one.
    fn with<const N: usize>(names: [&str; N], make: impl FnOnce([&str; N]) -> String) -> Self {
        let is_plain = |name: &&str| {
            !name.starts_with('-') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        Self(if names.iter().all(is_plain) { make(names) } else { String::new() })
    }
}

fn with_id(command: &str, id: &str) -> Command {
    Command::with([id], |[id]| format!("{command} {id}"))
}

/// Shows all that is known about a cluster.
fn row_command(cluster: &str) -> Command {
    Command::with([cluster], |[id]| format!("fleetwright fleet clusters --filter 'name = \"clusters/{id}\"' -o yaml"))
}

/// A problem of a resource. `code` is its last word in the name.
fn problem(
    (severity, code): (v1::Severity, &str),
    resource: &str,
    (summary, reason): (impl Into<String>, &str),
    command: impl Into<Command>,
) -> v1::Problem {
    let of = if resource.is_empty() { String::new() } else { format!("{resource}/") };
    v1::Problem {
        name: format!("{of}problems/{code}"),
        severity: severity.into(),
        code: code.to_owned(),
        resource: resource.to_owned(),
        summary: summary.into(),
        reason: reason.to_owned(),
        command: command.into().0,
        ..v1::Problem::default()
    }
}

fn since(problem: v1::Problem, start_time: Option<prost_types::Timestamp>) -> v1::Problem {
    v1::Problem { start_time, ..problem }
}

fn counted(problem: v1::Problem, count: i32) -> v1::Problem {
    v1::Problem { count, ..problem }
}

/// A fleet without clusters is no fleet in which nothing is wrong.
fn no_cluster() -> v1::Problem {
    let texts = (
        "no cluster yet",
        "no agent has connected: in each cluster, write the address of this server into deploy/agent/run/agent.env, and apply the \
         agent",
    );
    problem((Info, "NoCluster"), "", texts, CONNECT)
}

fn until(problem: v1::Problem, end_time: Option<prost_types::Timestamp>) -> v1::Problem {
    v1::Problem { end_time, ..problem }
}

fn id(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

/// Why nothing is decided for a cluster: the first cause, as the others follow from it.
fn undecided(cluster: &v1::Cluster) -> Option<v1::Problem> {
    let (name, id) = (&*cluster.name, id(&cluster.name));
    let quarantine = cluster.guardrails.as_ref().filter(|guardrails| !guardrails.quarantine_reason.is_empty());
    let why_left = Some(&*cluster.disconnect_reason).filter(|why| !why.is_empty());
    if cluster.stale {
        let why = why_left.unwrap_or("no replica that answers owns the cluster, or its agent is connected to none");
        let texts = ("no server decides", why);
        let found = problem((Critical, "NoOwner"), name, texts, AGENT_PODS);
        return Some(since(found, cluster.observe_time));
    }
    if !cluster.connected {
        let texts = ("the agent is disconnected", why_left.unwrap_or("nothing is decided until it is connected again"));
        return Some(since(problem((Critical, "AgentDisconnected"), name, texts, AGENT_PODS), cluster.observe_time));
    }
    if let Some(guardrails) = quarantine {
        let texts = ("the snapshot of the agent is quarantined", &*guardrails.quarantine_reason);
        let found = problem((Critical, "Quarantined"), name, texts, with_id("fleetwright quarantine release", id));
        return Some(since(found, guardrails.quarantine_time));
    }
    if !cluster.synced {
        let texts = ("the agent is sending the state of the cluster", "nothing is decided until it is complete");
        return Some(since(problem((Warning, "NotSynced"), name, texts, row_command(id)), cluster.unsynced_time));
    }
    let why = Some(&*cluster.plan_error).filter(|why| !why.is_empty())?;
    let texts = ("the last plan failed", why);
    let found = problem((Critical, "PlanFailed"), name, texts, with_id("fleetwright history --cluster", id));
    Some(since(found, cluster.plan_error_time))
}

/// What the guardrails hold back, apart from quarantine and freezes.
fn held_back(cluster: &v1::Cluster, guardrails: &v1::Guardrails) -> Vec<v1::Problem> {
    let (name, id) = (&*cluster.name, id(&cluster.name));
    let history = || with_id("fleetwright history --cluster", id);
    let removals = || Command::from("fleetwright removals");
    let mut found = Vec::new();
    let mut add = |(severity, code), summary: &str, reason: &str, start_time, command: Command| {
        if !reason.is_empty() {
            found.push(since(problem((severity, code), name, (summary, reason), command), start_time));
        }
    };
    let breaker = (&guardrails.circuit_breaker_reason, guardrails.circuit_breaker_time);
    let summary = "removals are stopped by the circuit breaker";
    add((Critical, "CircuitBreakerOpen"), summary, breaker.0, breaker.1, removals());
    let listing = (&guardrails.listing_rejected_reason, guardrails.listing_rejected_time);
    add((Critical, "ListingRejected"), "the cloud's list of instances is suspicious", listing.0, listing.1, removals());
    found.extend(blocked(name, guardrails, history));
    if let Some(first) = guardrails.waiting_removals.first() {
        let reason = format!("{}; {}", first.reason, first.release);
        let waiting = problem((Warning, "RemovalsWaiting"), name, ("removals wait", &reason), removals());
        found.push(counted(since(waiting, first.wait_time), guardrails.waiting_removal_count));
    }
    if guardrails.backoff_pod_count > 0 {
        let texts = ("pods are in launch backoff", "earlier launches did not bind them");
        let pods = with_id("fleetwright fleet pods --cluster", id);
        let waiting = since(problem((Warning, "LaunchBackoff"), name, texts, pods), guardrails.backoff_time);
        found.push(counted(waiting, guardrails.backoff_pod_count));
    }
    let shadows = [
        (guardrails.shadow, "Shadow", "decisions are recorded and not carried out"),
        (
            guardrails.disruption_shadow && !guardrails.shadow,
            "DisruptionShadow",
            "voluntary removals are recorded and not carried out",
        ),
    ];
    let shadows = shadows.into_iter().filter(|(is_on, ..)| *is_on);
    let shadow = |code, summary| since(problem((Info, code), name, (summary, ""), history()), guardrails.shadow_time);
    found.extend(shadows.map(|(_, code, summary)| shadow(code, summary)));
    found
}

/// What the limits hold back: until when, what that costs, and which setting allows more.
fn blocked(name: &str, guardrails: &v1::Guardrails, history: impl Fn() -> Command) -> Vec<v1::Problem> {
    let launches = (!guardrails.launches_blocked_reason.is_empty()).then(|| {
        let texts = ("launches are blocked", &*guardrails.launches_blocked_reason);
        let found = problem((Warning, "LaunchesBlocked"), name, texts, history());
        let found = since(until(found, guardrails.launches_blocked_until_time), guardrails.launches_blocked_time);
        v1::Problem { setting: guardrails.launches_blocked_setting.clone(), ..found }
    });
    let removals = (!guardrails.removals_blocked_reason.is_empty()).then(|| {
        let texts = ("removals are blocked", &*guardrails.removals_blocked_reason);
        let found = problem((Warning, "RemovalsBlocked"), name, texts, history());
        let found = since(until(found, guardrails.removals_blocked_until_time), guardrails.removals_blocked_time);
        v1::Problem {
            setting: guardrails.removals_blocked_setting.clone(),
            price_micro_usd_per_hour: guardrails.removals_blocked_price_micro_usd_per_hour,
            ..found
        }
    });
    launches.into_iter().chain(removals).collect()
}

/// What in a cluster keeps Fleetwright from managing all of it.
fn surroundings(cluster: &v1::Cluster) -> Vec<v1::Problem> {
    let (name, id) = (&*cluster.name, id(&cluster.name));
    let mut found = Vec::new();
    if let Some(first) = cluster.problems.first() {
        let unreadable = problem(
            (Warning, "UnreadableObjects"),
            name,
            ("objects cannot be read or watched", first),
            row_command(id),
        );
        found.push(counted(since(unreadable, cluster.problems_time), count(cluster.problems.len())));
    }
    if let Some(first) = cluster.unusable_nodes.first() {
        let unusable =
            problem((Warning, "NodesUnusable"), name, ("Nodes stay and take no pod", first), row_command(id));
        found.push(counted(unusable, count(cluster.unusable_nodes.len())));
    }
    if let Some(first) = cluster.unmanaged_pools.first() {
        let reason = format!("{}: {}", first.node_pool, first.reason);
        let left = problem((Info, "UnmanagedPools"), name, ("NodePools are not managed", &reason), row_command(id));
        found.push(counted(since(left, cluster.unmanaged_pools_time), count(cluster.unmanaged_pools.len())));
    }
    if !cluster.autoscalers.is_empty() {
        let summary = format!("another autoscaler is active: {}", cluster.autoscalers.join(", "));
        let texts = (summary, "two of them launch and remove machines for the same pods");
        let freeze = with_id("fleetwright freeze --reason 'two autoscalers' --cluster", id);
        found.push(since(problem((Warning, "OtherAutoscaler"), name, texts, freeze), cluster.autoscalers_time));
    }
    found
}

fn count(things: usize) -> i32 {
    i32::try_from(things).unwrap_or(i32::MAX)
}

fn pool_not_ready(pool: &v1::Pool) -> v1::Problem {
    let texts = ("no instance is launched from the NodePool", &*pool.not_ready_reason);
    problem((Warning, "NodePoolNotReady"), &pool.name, texts, with_id("kubectl describe nodepool", id(&pool.name)))
}

/// Pods that wait for too long, for each cluster and reason one problem that names the first of them.
fn waiting_pods(pods: &[v1::Pod], now_ms: i64) -> Vec<v1::Problem> {
    let mut groups: BTreeMap<(String, String), Vec<&v1::Pod>> = BTreeMap::new();
    let has_waited = |pod: &&v1::Pod| pod.create_time.as_ref().is_some_and(|at| to_millis(at) + PATIENCE_MS < now_ms);
    for pod in pods.iter().filter(has_waited) {
        let cluster = pod.name.split('/').nth(1).unwrap_or_default();
        let code = match (pod.state(), pod.reasons.first()) {
            (v1::PodState::Unschedulable, Some(reason)) => format!("PodsUnschedulable.{}", reason.code),
            (v1::PodState::Unschedulable, None) => "PodsUnschedulable".to_owned(),
            (v1::PodState::Planned, _) => "PodsWaitForNode".to_owned(),
            (v1::PodState::Waiting | v1::PodState::Unspecified, _) => "PodsWaitForPlan".to_owned(),
        };
        groups.entry((names::cluster(cluster), code)).or_default().push(pod);
    }
    groups
        .into_iter()
        .filter_map(|((cluster, code), pods)| Some(pods_of_group(&cluster, &code, pods.first()?, &pods)))
        .collect()
}

fn pods_of_group(cluster: &str, code: &str, first: &v1::Pod, pods: &[&v1::Pod]) -> v1::Problem {
    let parts: Vec<&str> = first.name.split('/').collect();
    let (namespace, pod) = (parts.get(3).copied().unwrap_or_default(), id(&first.name));
    let severity = if code == "PodsWaitForNode" { Warning } else { Critical };
    let waits = format!("{namespace}/{pod} waits longest");
    let reason = match (first.reasons.first(), &*first.planned_node) {
        (Some(reason), _) if reason.pool.is_empty() => format!("{waits}: {}", reason.message),
        (Some(reason), _) => format!("{waits}: NodePool {}: {}", reason.pool, reason.message),
        (None, "") => waits,
        (None, node) => format!("{waits}, for {node}"),
    };
    let summary = match code.split('.').next() {
        Some("PodsUnschedulable") => "pods have no place",
        Some("PodsWaitForNode") => "pods wait for their node",
        _ => "pods wait for a plan",
    };
    let command = Command::with([pod, namespace, id(cluster)], |[pod, namespace, cluster]| {
        format!("fleetwright why pod {pod} -n {namespace} --cluster {cluster}")
    });
    let found = problem((severity, code), cluster, (summary, &*reason), command);
    counted(since(found, first.create_time), count(pods.len()))
}

/// Offerings that are excluded now, for each instance type and capacity type one problem.
fn shortages(offerings: &[v1::Offering], now_ms: i64) -> Vec<v1::Problem> {
    let mut groups: BTreeMap<(&str, String), Vec<&v1::Offering>> = BTreeMap::new();
    let is_excluded = |offering: &&v1::Offering| {
        offering.failure_count > 0
            && offering.exclude_until_time.as_ref().is_some_and(|until| to_millis(until) > now_ms)
    };
    for offering in offerings.iter().filter(is_excluded) {
        let capacity_type = enum_values::capacity_type_label(offering.capacity_type());
        groups.entry((&offering.instance_type, capacity_type)).or_default().push(offering);
    }
    let mut found = Vec::new();
    for ((instance_type, capacity_type), of_type) in groups {
        let mut zones: Vec<&str> = of_type.iter().map(|offering| &*offering.zone_id).collect();
        zones.sort_unstable();
        zones.dedup();
        let summary = format!("the cloud refuses {capacity_type} {instance_type} in {}", zones.join(", "));
        let reason = of_type.first().map(|offering| &*offering.reason).unwrap_or_default();
        let command = Command::with([instance_type], |[instance_type]| {
            format!("fleetwright fleet offerings --filter 'instance_type = \"{instance_type}\"'")
        });
        let shortage = problem((Info, "Shortage"), "", (summary, reason), command);
        let refused = of_type.iter().filter_map(|offering| offering.refuse_time.as_ref()).map(to_millis).min();
        let over = of_type.iter().filter_map(|offering| offering.exclude_until_time.as_ref()).map(to_millis).max();
        let shortage = until(since(shortage, refused.map(from_millis)), over.map(from_millis));
        let shortage = counted(shortage, count(of_type.len()));
        found.push(v1::Problem { name: format!("problems/Shortage.{instance_type}.{capacity_type}"), ..shortage });
    }
    found
}

fn freeze(freeze: &v1::Freeze) -> v1::Problem {
    let what = if freeze.only_disruption {
        "voluntary disruption is frozen"
    } else {
        "launches and voluntary removals are frozen"
    };
    let reason = format!("{}, by {}", freeze.reason, freeze.creator);
    let command = with_id("fleetwright thaw --id", id(&freeze.name));
    let found = problem((Info, "Frozen"), &freeze.target, (what, &*reason), command);
    let found = v1::Problem { name: format!("{}.{}", found.name, id(&freeze.name)), ..found };
    until(since(found, freeze.create_time), freeze.expire_time)
}

#[cfg(test)]
mod tests;
