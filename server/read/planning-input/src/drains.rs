//! Drains that cannot end: disruption budgets that never allow an eviction, and pods that two
//! budgets select. The plan reports them because consolidation, drift and upgrades cannot remove
//! such a node.
//!
//! The specs and the desired number of pods decide, not the present number of healthy pods.

use std::collections::{BTreeMap, BTreeSet};

use manifests::cluster::pods::PodObject;
use manifests::cluster::policy::{Amount, BudgetThreshold, DisruptionBudget};
use manifests::notes;
use model::taints::first_untolerated;
use model::{Labels, Taint, Text};

/// Number of pods of one namespace, by workload title (`Kind/namespace/name`) and labels.
type Members = BTreeMap<String, BTreeMap<Labels, i64>>;

/// Pods that run or will run, in namespaces that have a disruption budget.
#[derive(Debug)]
pub struct BudgetedPods {
    namespaces: BTreeMap<Text, Members>,
}

/// Pods that a budget selects: their number and the titles of their workloads.
#[derive(Debug, Default)]
struct ProtectedPods {
    pods: i64,
    titles: BTreeSet<String>,
}

impl BudgetedPods {
    /// Counts no pods yet. Only pods in namespaces of `budgets` will be counted.
    #[must_use]
    pub fn new(budgets: &[DisruptionBudget]) -> Self {
        Self { namespaces: budgets.iter().map(|budget| (budget.namespace.clone(), Members::new())).collect() }
    }

    /// Adds a pod of `workload` (`Kind/name`). Static pods, which drains ignore, are not counted, nor are pods of
    /// DaemonSets that tolerate the taint of a drained node.
    pub fn add_pod(&mut self, pod: &PodObject, workload: &str) {
        if !pod.mirror && (pod.meta.owned_by("DaemonSet").is_none() || !tolerates_drains(pod)) {
            self.add(&pod.meta.namespace, workload, &pod.meta.labels, 1);
        }
    }

    /// Adds `count` pods of `workload` (`Kind/name`) with `labels`.
    pub fn add(&mut self, namespace: &Text, workload: &str, labels: &Labels, count: i64) {
        let Some(members) = self.namespaces.get_mut(namespace) else { return };
        let (kind, name) = workload.split_once('/').unwrap_or(("Pod", workload));
        let alike = members.entry(format!("{kind}/{namespace}/{name}")).or_default();
        match alike.get_mut(labels) {
            Some(known) => *known += count,
            None => {
                alike.insert(labels.clone(), count);
            }
        }
    }

    /// One message for each budget, or set of budgets, that blocks every drain.
    #[must_use]
    pub fn blocked_drains(&self, budgets: &[DisruptionBudget]) -> Vec<String> {
        let blocked = budgets.iter().filter_map(|budget| {
            let threshold = budget.threshold?;
            let guarded = self.guarded(budget);
            (guarded.pods > 0 && threshold.blocks_all(guarded.pods)).then(|| blocked(budget, threshold, &guarded))
        });
        blocked.chain(self.twice_guarded(budgets)).collect()
    }

    /// Number of pods that `budget` selects.
    #[must_use]
    pub fn count(&self, budget: &DisruptionBudget) -> i64 {
        self.guarded(budget).pods
    }

    fn members(&self, namespace: &Text) -> impl Iterator<Item = (&String, &Labels, i64)> {
        let titles = self.namespaces.get(namespace).into_iter().flatten();
        titles.flat_map(|(title, alike)| alike.iter().map(move |(labels, count)| (title, labels, *count)))
    }

    fn guarded(&self, budget: &DisruptionBudget) -> ProtectedPods {
        let mut guarded = ProtectedPods::default();
        for (title, _, count) in self.members(&budget.namespace).filter(|(_, labels, _)| budget.guards(labels)) {
            guarded.pods += count;
            if !guarded.titles.contains(title) {
                guarded.titles.insert(title.clone());
            }
        }
        guarded
    }

    /// One message for each set of budgets that select the same pods: the eviction API rejects the
    /// eviction of a pod that more than one budget selects.
    fn twice_guarded(&self, budgets: &[DisruptionBudget]) -> impl Iterator<Item = String> {
        let mut groups: BTreeMap<BTreeSet<String>, BTreeSet<String>> = BTreeMap::new();
        for namespace in self.namespaces.keys() {
            let here: Vec<_> = budgets.iter().filter(|budget| budget.namespace == *namespace).collect();
            for (title, labels, _) in self.members(namespace) {
                let guards = here.iter().filter(|budget| budget.guards(labels)).map(|budget| written(budget));
                let guards: BTreeSet<String> = guards.collect();
                if guards.len() > 1 {
                    groups.entry(guards).or_default().insert(title.clone());
                }
            }
        }
        groups.into_iter().map(|(guards, titles)| {
            format!(
                "{} guard the same pods ({}), which blocks every drain: pods with more than one budget are never evicted; keep one, or let their selectors differ",
                notes::name(&guards),
                notes::name(&titles)
            )
        })
    }
}

/// Whether the pod tolerates the taint of a drained node, so that no drain evicts it.
fn tolerates_drains(pod: &PodObject) -> bool {
    first_untolerated(&[Taint::of_drain()], pod.spec.tolerations()).is_none()
}

fn written(budget: &DisruptionBudget) -> String {
    format!("PodDisruptionBudget/{}/{}", budget.namespace, budget.name)
}

fn blocked(budget: &DisruptionBudget, threshold: BudgetThreshold, guarded: &ProtectedPods) -> String {
    let ProtectedPods { pods, titles } = guarded;
    let pods = if *pods == 1 { "its only pod go".to_owned() } else { format!("one of its {pods} pods go") };
    let (field, advice) = advice(threshold, guarded.pods);
    format!("{} will block every drain: {field} never lets {pods} ({}); {advice}", written(budget), notes::name(titles))
}

/// The threshold as it is written in the budget, and how to change it when it selects `pods` pods.
fn advice(threshold: BudgetThreshold, pods: i64) -> (String, String) {
    match threshold {
        BudgetThreshold::MaxUnavailable(amount) => {
            (format!("maxUnavailable: {amount}"), "raise it to 1 or more".to_owned())
        }
        BudgetThreshold::MinAvailable(amount @ Amount { number, percent: false }) => {
            let advice = format!("lower it to {}, or run {} pods or more", pods - 1, number.saturating_add(1));
            (format!("minAvailable: {amount}"), advice)
        }
        BudgetThreshold::MinAvailable(amount @ Amount { number: 100, .. }) => {
            (format!("minAvailable: {amount}"), "write maxUnavailable: 1 instead".to_owned())
        }
        BudgetThreshold::MinAvailable(amount) => {
            // ⌈p·n/100⌉ < n as soon as n·(100 − p) ≥ 100.
            let enough = (100 + 99 - amount.number) / (100 - amount.number);
            let advice = format!("write maxUnavailable: 1 instead, or run {enough} pods or more");
            (format!("minAvailable: {amount} rounded up"), advice)
        }
    }
}
