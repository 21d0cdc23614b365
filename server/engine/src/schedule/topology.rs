//! Rules between pods: who counts for whom, and how many there are in each domain.
//!
//! A [`Group`] is one thing to count: the pods that a predicate means, over the domains of one node label, on the nodes that
//! a filter lets through. Spread constraints and affinity terms of many pods share groups. For anti-affinity a group also
//! counts its *owners*, the pods that refuse those it means.

use rustc_hash::FxHashMap;

use super::subjects::{Predicate, SelectorIndex, SubjectId};
use crate::model::labels::HOSTNAME;
use crate::model::{Text, Toleration};

pub(super) type GroupId = u32;
pub(super) type KeyId = u16;
pub(super) type DomainId = u32;
/// A key and a [`NodeFilter`]: groups that have both in common count over the same machines and domains.
pub(super) type ScopeId = u32;

/// The domain of machines that lack the label: anti-affinity bars nobody there, and no other rule lets anybody in.
pub(super) const ABSENT: DomainId = DomainId::MAX;

/// Which nodes count for a spread constraint; the default counts all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct NodeFilter {
    /// Alternatives of node requirements, one of which must hold (`nodeAffinityPolicy: Honor`).
    pub(super) any_of: Option<Vec<super::fits::ReqId>>,
    /// Taints of the node must be tolerated by these (`nodeTaintsPolicy: Honor`).
    pub(super) tolerations: Option<Vec<Toleration>>,
    /// Labels that the node must have: the keys of the pod's other hard constraints (kube-scheduler looks only at nodes that
    /// have all of them).
    pub(super) keys: Vec<KeyId>,
}

/// One thing to count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct GroupSpec {
    pub(super) key: KeyId,
    pub(super) predicate: Predicate,
    pub(super) filter: NodeFilter,
    /// Whether owners are counted as well.
    pub(super) anti: bool,
}

/// Pods in one domain of one group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Pods that the predicate means.
    pub(super) matched: u32,
    /// Pods that own the (anti-affinity) term.
    pub(super) owners: u32,
    /// Those of `matched` on machines that may turn out not to count.
    pub(super) doubtful: u32,
}

impl Tally {
    /// Pods that the predicate means and that count whatever machines turn out to be.
    pub(super) fn sure(self) -> u32 {
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
    /// For each subject, the groups that mean it.
    meant_by: Vec<Vec<GroupId>>,
    /// For each group that is not over hostnames, tallies by domain.
    tallies: Vec<Vec<Tally>>,
    /// For each group, how many pods its predicate means in any domain.
    totals: Vec<u32>,
    /// For each group, whether a hard rule looks at it.
    hard: Vec<bool>,
    /// For each group, which machines count under which key.
    scopes: Vec<ScopeId>,
    scope_ids: FxHashMap<(KeyId, NodeFilter), ScopeId>,
}

impl Topology {
    pub(super) fn new(subjects: &SelectorIndex<'_>) -> Self {
        let mut topology = Self { meant_by: vec![Vec::new(); subjects.len()], ..Self::default() };
        topology.key(HOSTNAME);
        topology
    }

    /// The key of hostnames: every machine is a domain of its own.
    pub(super) const HOST: KeyId = 0;

    pub(super) fn key(&mut self, name: &str) -> KeyId {
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

    /// Every key but the hostname.
    pub(super) fn wide_keys(&self) -> impl Iterator<Item = KeyId> + use<> {
        1..KeyId::try_from(self.keys.len()).unwrap_or(KeyId::MAX)
    }

    pub(super) fn domain(&mut self, key: KeyId, value: &str) -> DomainId {
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

    /// The group of `spec`, made on first use; its members become known to [`Topology::meant_by`].
    pub(super) fn group(&mut self, spec: GroupSpec, subjects: &SelectorIndex<'_>) -> GroupId {
        if let Some(id) = self.group_ids.get(&spec) {
            return *id;
        }
        let id = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        for subject in subjects.matching(&spec.predicate) {
            self.meant_by[subject as usize].push(id);
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

    /// Notes that a hard rule looks at `group`.
    pub(super) fn harden(&mut self, group: GroupId) {
        self.hard[group as usize] = true;
    }

    pub(super) fn is_hard(&self, group: GroupId) -> bool {
        self.hard[group as usize]
    }

    /// The groups that mean `subject`, ascending.
    pub(super) fn meant_by(&self, subject: SubjectId) -> &[GroupId] {
        &self.meant_by[subject as usize]
    }

    pub(super) fn means(&self, group: GroupId, subject: SubjectId) -> bool {
        self.meant_by[subject as usize].binary_search(&group).is_ok()
    }

    pub(super) fn tally(&self, group: GroupId, domain: DomainId) -> Tally {
        self.tallies[group as usize].get(domain as usize).copied().unwrap_or_default()
    }

    /// Whether `group` may count pods outside of `known` distinct domains in each of which it counts some. Domains are numbered
    /// from zero on, and tallies reach up to the last domain with pods: as many tallies as known domains are those domains.
    pub(super) fn may_count_beyond(&self, group: GroupId, known: usize) -> bool {
        self.tallies[group as usize].len() > known
    }

    /// The domains in which pods stand that `group` means, and how many.
    pub(super) fn filled(&self, group: GroupId) -> impl Iterator<Item = (DomainId, u32)> {
        let tallies = (0_u32..).zip(&self.tallies[group as usize]);
        tallies.filter(|(_, tally)| tally.matched > 0).map(|(domain, tally)| (domain, tally.matched))
    }

    /// How many pods in any domain are meant by `group`.
    pub(super) fn total(&self, group: GroupId) -> u32 {
        self.totals[group as usize]
    }

    /// Whether some pod in some domain owns the term of `group`.
    pub(super) fn is_owned(&self, group: GroupId) -> bool {
        self.tallies[group as usize].iter().any(|tally| tally.owners > 0)
    }

    pub(super) fn add_total(&mut self, group: GroupId, count: u32) {
        self.totals[group as usize] += count;
    }

    pub(super) fn count(&mut self, group: GroupId, domain: DomainId, matched: u32, owners: u32) {
        let tallies = &mut self.tallies[group as usize];
        if tallies.len() <= domain as usize {
            tallies.resize(domain as usize + 1, Tally::default());
        }
        tallies[domain as usize].matched += matched;
        tallies[domain as usize].owners += owners;
    }

    /// Notes that so many pods of those that were counted in `domain` stand on machines that may turn out not to count.
    pub(super) fn doubt(&mut self, group: GroupId, domain: DomainId, matched: u32) {
        if let Some(tally) = self.tallies[group as usize].get_mut(domain as usize) {
            tally.doubtful += matched;
        }
    }
}
