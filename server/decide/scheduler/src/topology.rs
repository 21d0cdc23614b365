//! Rules between pods: which pods each rule counts, and their number per domain.
//!
//! A group ([`GroupSpec`]) is one thing to count: the pods that a predicate selects, over the
//! domains of one node label, on the nodes that a filter admits. Spread constraints and affinity
//! terms of many pods share groups. For anti-affinity a group also counts its *carriers*, the pods
//! that have the term.

use rustc_hash::FxHashMap;

use super::selector_index::{PodLabelsId, Predicate, SelectorIndex};
use model::labels::HOSTNAME;
use model::{Text, Toleration};

pub(super) type GroupId = u32;
pub(super) type KeyId = u16;
pub(super) type DomainId = u32;
/// A key and a [`NodeFilter`]: groups with equal scope count over the same nodes and domains.
pub(super) type ScopeId = u32;

/// The domain of nodes without the label: anti-affinity excludes no pod there, and every other rule
/// excludes all.
pub(super) const ABSENT: DomainId = DomainId::MAX;

/// Restricts a machine to one domain of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Pin {
    pub(super) key: KeyId,
    pub(super) domain: DomainId,
}

/// The nodes that count for a spread constraint; the default counts all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct NodeFilter {
    /// Alternatives of node requirements, one of which must hold (`nodeAffinityPolicy: Honor`).
    pub(super) any_of: Option<Vec<super::fits::RequirementsId>>,
    /// Taints of the node must be tolerated by these (`nodeTaintsPolicy: Honor`).
    pub(super) tolerations: Option<Vec<Toleration>>,
    /// Labels that the node must have: the keys of the pod's other hard constraints (kube-scheduler
    /// considers only nodes that have all of them).
    pub(super) keys: Vec<KeyId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct GroupSpec {
    pub(super) key: KeyId,
    pub(super) predicate: Predicate,
    pub(super) filter: NodeFilter,
    /// Whether carriers are counted as well.
    pub(super) anti: bool,
}

/// Counts in one domain of one group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) matched: u32,
    /// Pods that carry the (anti-affinity) term.
    pub(super) carriers: u32,
    /// Those of `matched` on machines that may turn out not to count.
    pub(super) doubtful: u32,
}

impl Tally {
    /// Selected pods that count whichever options are launched.
    pub(super) fn certain(self) -> u32 {
        self.matched.saturating_sub(self.doubtful)
    }
}

/// Topology keys, their domains, and the groups over them.
#[derive(Debug, Default)]
pub(super) struct Topology {
    keys: Vec<Text>,
    domains: Vec<Vec<Text>>,
    domain_ids: Vec<FxHashMap<Text, DomainId>>,
    pub(super) groups: Vec<GroupSpec>,
    group_ids: FxHashMap<GroupSpec, GroupId>,
    /// For each pod label set, the groups that select it.
    selected_by: Vec<Vec<GroupId>>,
    /// Tallies by domain, for each group that is not over hostnames.
    tallies: Vec<Vec<Tally>>,
    /// For each group, the number of selected pods in all domains.
    totals: Vec<u32>,
    /// For each group, whether a required rule uses it.
    hard: Vec<bool>,
    /// For each group, its scope.
    scopes: Vec<ScopeId>,
    scope_ids: FxHashMap<(KeyId, NodeFilter), ScopeId>,
}

impl Topology {
    pub(super) fn new(selector_index: &SelectorIndex<'_>) -> Self {
        let mut topology = Self { selected_by: vec![Vec::new(); selector_index.len()], ..Self::default() };
        topology.key_id(HOSTNAME);
        topology
    }

    /// The hostname key: every node is a domain of its own.
    pub(super) const HOST: KeyId = 0;

    pub(super) fn key_id(&mut self, name: &str) -> KeyId {
        let at = self.keys.iter().position(|key| key.as_ref() == name).unwrap_or_else(|| {
            self.keys.push(Text::from(name));
            self.domains.push(Vec::new());
            self.domain_ids.push(FxHashMap::default());
            self.keys.len() - 1
        });
        KeyId::try_from(at).unwrap_or(KeyId::MAX)
    }

    pub(super) fn key_name(&self, key: KeyId) -> &Text {
        &self.keys[usize::from(key)]
    }

    /// Every key except the hostname.
    pub(super) fn wide_keys(&self) -> impl Iterator<Item = KeyId> + use<> {
        1..KeyId::try_from(self.keys.len()).unwrap_or(KeyId::MAX)
    }

    pub(super) fn domain_id(&mut self, key: KeyId, value: &str) -> DomainId {
        let at = usize::from(key);
        if let Some(id) = self.domain_ids[at].get(value) {
            return *id;
        }
        let id = u32::try_from(self.domains[at].len()).unwrap_or(u32::MAX);
        let value = Text::from(value);
        self.domains[at].push(value.clone());
        self.domain_ids[at].insert(value, id);
        id
    }

    pub(super) fn domain_name(&self, key: KeyId, domain: DomainId) -> &Text {
        &self.domains[usize::from(key)][domain as usize]
    }

    /// The group of `spec`, registered on first use; [`Topology::selected_by`] then includes it.
    pub(super) fn group_id(&mut self, spec: GroupSpec, selector_index: &SelectorIndex<'_>) -> GroupId {
        if let Some(id) = self.group_ids.get(&spec) {
            return *id;
        }
        let id = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        for pod_labels in selector_index.matching(&spec.predicate) {
            self.selected_by[pod_labels as usize].push(id);
        }
        self.group_ids.insert(spec.clone(), id);
        let next = u32::try_from(self.scope_ids.len()).unwrap_or(u32::MAX);
        self.scopes.push(*self.scope_ids.entry((spec.key, spec.filter.clone())).or_insert(next));
        self.groups.push(spec);
        self.tallies.push(Vec::new());
        self.totals.push(0);
        self.hard.push(false);
        id
    }

    /// The scope of `group`.
    pub(super) fn scope(&self, group: GroupId) -> ScopeId {
        self.scopes[group as usize]
    }

    /// Records that a required rule uses `group`.
    pub(super) fn mark_hard(&mut self, group: GroupId) {
        self.hard[group as usize] = true;
    }

    pub(super) fn is_hard(&self, group: GroupId) -> bool {
        self.hard[group as usize]
    }

    /// The groups that select `pod_labels`, ascending.
    pub(super) fn selected_by(&self, pod_labels: PodLabelsId) -> &[GroupId] {
        &self.selected_by[pod_labels as usize]
    }

    pub(super) fn selects(&self, group: GroupId, pod_labels: PodLabelsId) -> bool {
        self.selected_by[pod_labels as usize].binary_search(&group).is_ok()
    }

    pub(super) fn tally(&self, group: GroupId, domain: DomainId) -> Tally {
        self.tallies[group as usize].get(domain as usize).copied().unwrap_or_default()
    }

    /// Whether `group` may count pods outside of `known` distinct domains, in each of which it
    /// counts some. Domains are numbered from zero, and tallies reach up to the last domain with
    /// pods: with no more tallies than known domains, there is no other.
    pub(super) fn may_count_beyond(&self, group: GroupId, known: usize) -> bool {
        self.tallies[group as usize].len() > known
    }

    /// The domains with pods that `group` selects, and their counts.
    pub(super) fn filled(&self, group: GroupId) -> impl Iterator<Item = (DomainId, u32)> {
        let tallies = (0_u32..).zip(&self.tallies[group as usize]);
        tallies.filter(|(_, tally)| tally.matched > 0).map(|(domain, tally)| (domain, tally.matched))
    }

    /// Pods that `group` selects, in all domains.
    pub(super) fn total(&self, group: GroupId) -> u32 {
        self.totals[group as usize]
    }

    /// Whether some placed pod carries the term of `group`.
    pub(super) fn has_carriers(&self, group: GroupId) -> bool {
        self.tallies[group as usize].iter().any(|tally| tally.carriers > 0)
    }

    pub(super) fn add_total(&mut self, group: GroupId, count: u32) {
        self.totals[group as usize] += count;
    }

    pub(super) fn add_pods(&mut self, group: GroupId, domain: DomainId, matched: u32, carriers: u32) {
        let tallies = &mut self.tallies[group as usize];
        if tallies.len() <= domain as usize {
            tallies.resize(domain as usize + 1, Tally::default());
        }
        tallies[domain as usize].matched += matched;
        tallies[domain as usize].carriers += carriers;
    }

    /// Records that this many of the pods counted in `domain` are on machines that may turn out not
    /// to count.
    pub(super) fn mark_doubtful(&mut self, group: GroupId, domain: DomainId, matched: u32) {
        if let Some(tally) = self.tallies[group as usize].get_mut(domain as usize) {
            tally.doubtful += matched;
        }
    }
}
