//! Rules whose domain is a machine: how many pods of a class the rules over hostnames allow on one, and which groups get no
//! further domain.

use super::classes::{ClassRule, PreferenceSet, RuleKind, in_force};
use super::machines::HostTallies;
use super::packing::Packing;
use super::topology::Topology;

impl Packing<'_, '_> {
    /// Pods of `class` that the hostname rules allow on a machine with these tallies.
    pub(super) fn host_cap(&self, class: u32, host: &HostTallies, preferences: PreferenceSet) -> u32 {
        let needs = &self.problem.classes[class as usize];
        let mut cap = u32::MAX;
        for rule in
            needs.rules.iter().filter(|rule| rule.key == Topology::HOST && in_force(rule.preference, preferences))
        {
            let tally = host.get(rule.group);
            cap = cap.min(match rule.kind {
                RuleKind::Spread { max_skew, selects_self, .. } => {
                    self.host_spread_cap(rule.group, tally.matched, max_skew, selects_self)
                }
                RuleKind::Affinity { .. } | RuleKind::AntiAffinity { .. } => {
                    self.affinity_cap(class, rule, tally.matched)
                }
            });
        }
        let refused = |group: &u32| {
            let spec = &self.topology.groups[*group as usize];
            spec.anti && spec.key == Topology::HOST && host.get(*group).carriers > 0
        };
        if needs.selected_by.iter().any(refused) { 0 } else { cap }
    }

    /// An empty machine can always be opened, so the minimum is zero, or one where every host is to have
    /// a pod. Only for pods that nothing else places is it the minimum over the machines present.
    fn host_spread_cap(&self, group: u32, matched: u32, max_skew: u32, selects_self: bool) -> u32 {
        let known = self.min_host_counts.iter().find(|(known, _)| *known == group);
        let least = known.map_or(0, |(_, least)| *least).max(u32::from(self.populated.contains(&group)));
        match (selects_self, matched <= max_skew + least) {
            (true, _) => (max_skew + least).saturating_sub(matched),
            (false, true) => u32::MAX,
            (false, false) => 0,
        }
    }

    /// Pods of `class` that an affinity or anti-affinity allows in a domain with `matched` pods that its group selects;
    /// no limit for a spread.
    pub(super) fn affinity_cap(&self, class: u32, rule: &ClassRule, matched: u32) -> u32 {
        match rule.kind {
            RuleKind::Affinity { bootstrap } if matched > 0 || (bootstrap && self.is_first_pod(class, rule)) => {
                u32::MAX
            }
            RuleKind::Affinity { .. } => 0,
            RuleKind::AntiAffinity { .. } if matched > 0 => 0,
            RuleKind::AntiAffinity { selects_self: true } => 1,
            RuleKind::AntiAffinity { selects_self: false } | RuleKind::Spread { .. } => u32::MAX,
        }
    }

    /// All terms of a pod's required affinity count together: the first pod of its kind is exempt
    /// from all or from none.
    fn is_first_pod(&self, class: u32, rule: &ClassRule) -> bool {
        let no_pods = |rule: &ClassRule| self.topology.total(rule.group) == 0;
        if rule.preference.is_some() {
            return no_pods(rule);
        }
        let rules = &self.problem.classes[class as usize].rules;
        let hard =
            rules.iter().filter(|rule| rule.preference.is_none() && matches!(rule.kind, RuleKind::Affinity { .. }));
        hard.into_iter().all(no_pods)
    }

    /// Whether the pods must share one machine and none of them is placed: the machine of the first
    /// must take all.
    pub(super) fn must_share_machine(&self, class: u32) -> bool {
        self.problem.classes[class as usize].rules.iter().any(|rule| {
            rule.preference.is_none()
                && rule.key == Topology::HOST
                && matches!(rule.kind, RuleKind::Affinity { bootstrap: true })
                && self.is_first_pod(class, rule)
        })
    }

    /// After a placement of `class` on a machine with these tallies, closes the groups whose spread
    /// one more empty domain would violate.
    pub(super) fn forbid_new_domains(&mut self, class: u32, host: &HostTallies) {
        for rule in self.problem.classes[class as usize].rules.iter().filter(|rule| rule.preference.is_none()) {
            let RuleKind::Spread { max_skew, .. } = rule.kind else { continue };
            let fullest = match rule.key {
                Topology::HOST => host.get(rule.group).matched,
                _ => self.topology.filled(rule.group).map(|(_, matched)| matched).max().unwrap_or(0),
            };
            if fullest > max_skew {
                self.no_new_domains.insert(rule.group);
            }
        }
    }
}
