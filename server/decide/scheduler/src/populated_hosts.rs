//! Hostname spread on hosts that all have a pod of the group.
//!
//! A packing counts from zero, because it may open an empty machine at any time: `maxSkew` pods on a
//! host. Where every host that counts ends with at least one pod, kube-scheduler allows one more.
//! The search tries that: fewer and larger machines for the same pods. It places the first pods of all
//! hosts before the others, as kube-scheduler does.

use std::collections::BTreeSet;

use super::classes::{Class, ClassRule, RuleKind};
use super::machines::{Destination, PlacementEvent};
use super::nodes::passes;
use super::packing::Packing;
use super::search::LaunchedPods;
use super::topology::{GroupId, Topology};

impl Packing<'_, '_> {
    /// The groups of hostname spread whose hosts may all have a pod: neither an existing node nor a
    /// machine of `launched` counts without one, and nothing but hostname rules decides where their pods
    /// run, so that the order of placement is free.
    pub(super) fn populatable_groups(&self, launched: &LaunchedPods) -> BTreeSet<GroupId> {
        let problem = self.problem;
        let spread = |rule: &&ClassRule| is_host_spread(rule) && rule.preference.is_none();
        let rules = problem.classes.iter().flat_map(|class| &class.rules);
        let groups: BTreeSet<GroupId> = rules.filter(spread).map(|rule| rule.group).collect();
        groups.into_iter().filter(|group| self.is_populatable(*group) && self.may_populate(*group, launched)).collect()
    }

    /// Whether every machine of `launched` has a pod of `group`, or `group` counts some machines only.
    fn may_populate(&self, group: GroupId, launched: &LaunchedPods) -> bool {
        let selected = |class: u32| self.problem.classes[class as usize].selected_by.contains(&group);
        self.topology.groups[group as usize].filter.any_of.is_some()
            || launched.classes_by_machine().all(|mut classes| classes.any(selected))
    }

    fn is_populatable(&self, group: GroupId) -> bool {
        let filter = &self.topology.groups[group as usize].filter;
        let counting = |node: u32| passes(filter, &self.problem.input.nodes[node as usize], &self.fits, &self.topology);
        let has_pod: BTreeSet<u32> =
            self.existing_nodes.iter().filter(|node| node.host.get(group).matched > 0).map(|node| node.node).collect();
        let nodes = (0_u32..).zip(&self.problem.input.nodes).map(|(at, _)| at);
        nodes.into_iter().all(|at| has_pod.contains(&at) || !counting(at))
            && self
                .problem
                .classes
                .iter()
                .filter(|class| concerns(class, group))
                .all(|class| self.is_placed_by_host(class, group))
    }

    /// Whether only hostname rules decide where the pods of `class` run, and `group` counts them.
    fn is_placed_by_host(&self, class: &Class, group: GroupId) -> bool {
        let required = class.rules.iter().filter(|rule| rule.preference.is_none());
        let free = |rule: &ClassRule| match rule.kind {
            RuleKind::Spread { min_domains, .. } => rule.key == Topology::HOST && min_domains <= 1,
            RuleKind::AntiAffinity { .. } => rule.key == Topology::HOST,
            RuleKind::Affinity { .. } => false,
        };
        let wide = |counted: &GroupId| {
            self.topology.is_hard(*counted) && self.topology.groups[*counted as usize].key != Topology::HOST
        };
        class.selected_by.contains(&group) && required.into_iter().all(free) && !class.selected_by.iter().any(wide)
    }

    /// Whether every machine that counts for the [`Packing::populated`] groups has a pod of them.
    pub(super) fn hosts_are_populated(&mut self) -> bool {
        let groups: Vec<GroupId> = self.populated.iter().copied().collect();
        (0..self.cohorts.len()).filter(|at| !self.cohorts[*at].ids.is_empty()).collect::<Vec<_>>().into_iter().all(
            |at| {
                let (pool, fit) = (self.cohorts[at].pool, self.cohorts[at].fit);
                groups
                    .iter()
                    .all(|group| self.cohorts[at].host.get(*group).matched > 0 || !self.fit_passes(*group, fit, pool))
            },
        )
    }

    /// Moves all but the first pod that each host has of a [`Packing::populated`] group to the end of the
    /// placements.
    pub(super) fn place_first_pods_first(&mut self) {
        let mut begun: BTreeSet<(GroupId, Destination)> = BTreeSet::new();
        let (mut first, mut later) = (Vec::new(), Vec::new());
        for event in std::mem::take(&mut self.events) {
            let selected = &self.problem.classes[event.class as usize].selected_by;
            let is_populated = |group: &&GroupId| self.populated.contains(group);
            let known = begun.len();
            begun.extend(selected.iter().filter(is_populated).map(|group| (*group, event.destination)));
            if !selected.iter().any(|group| self.populated.contains(group)) {
                first.push(event);
            } else if begun.len() > known {
                first.push(PlacementEvent { count: 1, ..event });
                later.push(PlacementEvent { count: event.count - 1, ..event });
            } else {
                later.push(event);
            }
        }
        later.retain(|event| event.count > 0);
        self.events = first.into_iter().chain(later).collect();
    }
}

fn is_host_spread(rule: &ClassRule) -> bool {
    rule.key == Topology::HOST && matches!(rule.kind, RuleKind::Spread { .. })
}

/// Whether `group` counts pods of `class` or decides where they run.
fn concerns(class: &Class, group: GroupId) -> bool {
    class.selected_by.contains(&group) || class.rules.iter().any(|rule| rule.group == group)
}
