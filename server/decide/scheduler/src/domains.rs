//! Rules over wide domains (zones and other labels): where the next pods of a class may go, and how
//! many at once.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::classes::{ClassRule, PreferenceSet, RuleKind, in_force};
use super::machines::Destination;
use super::packing::{Packing, Reach};
use super::topology::{ABSENT, DomainId, GroupId, KeyId, Pin, Topology};

/// Combinations of domains beyond which further ones are not tried.
const MAX_TARGETS: usize = 256;

pub(super) type Pins = SmallVec<[Pin; 1]>;

/// A rule over a wide key that applies to a class: its own, or one imposed by placed pods.
#[derive(Debug, Clone)]
pub(super) struct WideRule {
    key: KeyId,
    group: GroupId,
    /// Index into the class's own rules; `None` when another pod's anti-affinity imposes it.
    own: Option<usize>,
}

impl Packing<'_, '_> {
    /// The rules over wide keys that apply to `class`.
    pub(super) fn wide_rules(&self, class: u32, preferences: PreferenceSet) -> Vec<WideRule> {
        let needs = &self.problem.classes[class as usize];
        let wide = |rule: &ClassRule| rule.key != Topology::HOST && in_force(rule.preference, preferences);
        let own = needs.rules.iter().enumerate().filter(|(_, rule)| wide(rule));
        let own = own.map(|(at, rule)| WideRule { key: rule.key, group: rule.group, own: Some(at) });
        let imposed = needs.selected_by.iter().filter(|group| {
            let spec = &self.topology.groups[**group as usize];
            spec.anti && spec.key != Topology::HOST && self.topology.has_carriers(**group)
        });
        let imposed =
            imposed.map(|group| WideRule { key: self.topology.groups[*group as usize].key, group: *group, own: None });
        own.chain(imposed).collect()
    }

    /// Spreads up to `count` pods over the domains that `rules` allow.
    pub(super) fn spread_over(
        &mut self,
        class: u32,
        count: u32,
        preferences: PreferenceSet,
        reach: Reach,
        rules: &[WideRule],
    ) -> u32 {
        let from = self.events.len();
        let level_rule = self.level_rule(class, rules).filter(|_| self.level_by_level);
        let mut exhausted: BTreeSet<Vec<DomainId>> = BTreeSet::new();
        let (mut left, mut is_ahead) = (count, false);
        // Every batch changes the tallies, so the targets are computed anew.
        while left > 0 && !self.steps.is_exhausted() {
            let targets = self.targets(class, preferences, rules);
            let name = |pins: &Pins| pins.iter().map(|pin| pin.domain).collect::<Vec<_>>();
            let Some(pins) = targets.iter().find(|pins| !exhausted.contains(&name(pins))) else { break };
            let cap = self.cap_of(class, pins, rules);
            let batch = match level_rule {
                Some(rule)
                    if reach == Reach::NewMachines
                        && self.limits_allow_even_spread(class, left, preferences, &targets, pins) =>
                {
                    self.level_share(class, rule, left, pins, &targets).max(cap)
                }
                _ => cap,
            };
            let mut got = self.fill_within(class, batch.min(left), pins, preferences, reach);
            // Once a domain has more than the rule allows at that time, it and the others must get to one level in
            // this call, whether there is a pattern for them or not.
            is_ahead |= batch > cap;
            if got < batch.min(left) && is_ahead && self.patterns.suspend() {
                got += self.fill_within(class, batch.min(left) - got, pins, preferences, reach);
                self.patterns.resume();
            }
            left -= got;
            if got < batch.min(count) && got == 0 {
                exhausted.insert(name(pins));
            }
        }
        if let Some(rule) = level_rule {
            self.interleave(from, rule.key);
        }
        count - left
    }

    /// Whether required rules between pods decide in which domains of `key` pods of `class` run.
    pub(super) fn is_placed_by_domain(&mut self, class: u32, key: KeyId) -> bool {
        self.wide_rules(class, PreferenceSet::default()).iter().any(|rule| rule.key == key)
    }

    /// The rule whose domains are filled level by level, when it is the only rule over wide keys.
    fn level_rule<'r>(&self, class: u32, rules: &'r [WideRule]) -> Option<&'r WideRule> {
        let needs = &self.problem.classes[class as usize];
        let selects_self = |rule: &&WideRule| {
            rule.own.is_some_and(|at| matches!(needs.rules[at].kind, RuleKind::Spread { selects_self: true, .. }))
        };
        match rules {
            [only] => Some(only).filter(selects_self),
            _ => None,
        }
    }

    /// Whether no limit can disturb an even spread over `targets`, so that a domain may take its
    /// whole share before the others.
    fn limits_allow_even_spread(
        &mut self,
        class: u32,
        count: u32,
        preferences: PreferenceSet,
        targets: &[Pins],
        pins: &Pins,
    ) -> bool {
        targets.contains(pins) && targets.iter().all(|pins| self.can_always_launch(class, count, preferences, pins))
    }

    /// Pods for the domain of `pins` when `left` pods are spread evenly over the eligible domains
    /// of `rule`.
    fn level_share(&mut self, class: u32, rule: &WideRule, left: u32, pins: &Pins, targets: &[Pins]) -> u32 {
        let Some(own) = rule.own else { return 0 };
        let eligible_domains = self.eligible_domains(rule.group);
        if let RuleKind::Spread { min_domains, .. } = self.problem.classes[class as usize].rules[own].kind
            && eligible_domains.len() < min_domains as usize
        {
            // Fewer domains than `minDomains`: the minimum is zero however full they are, so
            // nothing can be levelled.
            return 0;
        }
        // A domain that exists only for a preference has no share; no domain has one while some
        // pods may turn out not to count.
        let doubtful = |domain: DomainId| self.topology.tally(rule.group, domain).doubtful > 0;
        if self.topology.filled(rule.group).any(|(domain, _)| !eligible_domains.contains(&domain) || doubtful(domain)) {
            return 0;
        }
        let count_in = |domain: DomainId| u64::from(self.topology.tally(rule.group, domain).matched);
        let mut counts: Vec<u64> = eligible_domains.iter().map(|domain| count_in(*domain)).collect();
        counts.sort_unstable();
        let level = water_level(&counts, u64::from(left));
        // Domains outside the targets get no pods. If one is below the level, the others get no
        // share beyond the rule; if it reaches the level, it has had its share.
        let stands_still = |domain: &DomainId| !targets.iter().any(|pins| pins[0].domain == *domain);
        if eligible_domains.iter().any(|domain| stands_still(domain) && count_in(*domain) < level) {
            return 0;
        }
        let own_count = count_in(pins[0].domain);
        u32::try_from(level.saturating_sub(own_count)).unwrap_or(u32::MAX)
    }

    /// The domain combinations that the rules allow now, in the order in which they are tried.
    pub(super) fn targets(&mut self, class: u32, preferences: PreferenceSet, rules: &[WideRule]) -> Vec<Pins> {
        let mut keys: Vec<KeyId> = rules.iter().map(|rule| rule.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut targets: Vec<Pins> = vec![Pins::new()];
        for key in keys {
            let allowed = self.allowed(class, preferences, key, rules);
            let extend = |pins: &Pins| {
                let pins = pins.clone();
                allowed
                    .iter()
                    .map(move |domain| {
                        let mut longer = pins.clone();
                        longer.push(Pin { key, domain: *domain });
                        longer
                    })
                    .collect::<Vec<_>>()
            };
            targets = targets.iter().flat_map(extend).take(MAX_TARGETS).collect();
        }
        targets
    }

    /// Domains of `key` that every rule over it allows, least filled first, then cheapest, then by
    /// name.
    fn allowed(&mut self, class: u32, preferences: PreferenceSet, key: KeyId, rules: &[WideRule]) -> Vec<DomainId> {
        let over: Vec<&WideRule> = rules.iter().filter(|rule| rule.key == key).collect();
        let reachable = self.reachable_domains(class, preferences, key);
        let mut ranked: Vec<(u32, i64, model::Text, DomainId)> = Vec::new();
        for domain in reachable.iter().copied() {
            self.steps.consume(over.len());
            if over.iter().all(|rule| self.rule_cap(class, rule, domain) > 0) {
                // Only the class's own rules prefer emptier domains; imposed rules only allow or
                // exclude.
                let own = over.iter().filter(|rule| rule.own.is_some());
                let filled = own.map(|rule| self.topology.tally(rule.group, domain).matched).max().unwrap_or(0);
                let price = self.domain_price(class, preferences, Pin { key, domain });
                ranked.push((filled, price, self.topology.domain_name(key, domain).clone(), domain));
            }
        }
        if over.iter().all(|rule| self.rule_cap(class, rule, ABSENT) > 0)
            && self.may_lack_label(class, preferences, key)
        {
            ranked.push((0, i64::MAX, model::Text::from(""), ABSENT));
        }
        ranked.sort();
        ranked.into_iter().map(|(_, _, _, domain)| domain).collect()
    }

    /// The maximum number of pods that all rules allow in the domains `pins` now.
    fn cap_of(&mut self, class: u32, pins: &Pins, rules: &[WideRule]) -> u32 {
        let domain_of = |key: KeyId| pins.iter().find(|pin| pin.key == key).map(|pin| pin.domain);
        rules
            .iter()
            .map(|rule| domain_of(rule.key).map_or(0, |domain| self.rule_cap(class, rule, domain)))
            .min()
            .unwrap_or(u32::MAX)
    }

    /// The maximum number of pods that `rule` allows in `domain` now.
    fn rule_cap(&mut self, class: u32, rule: &WideRule, domain: DomainId) -> u32 {
        let tally = self.topology.tally(rule.group, domain);
        let Some(own) = rule.own else { return if tally.carriers > 0 { 0 } else { u32::MAX } };
        let problem = self.problem;
        let own = &problem.classes[class as usize].rules[own];
        if domain == ABSENT {
            return if matches!(own.kind, RuleKind::AntiAffinity { .. }) { u32::MAX } else { 0 };
        }
        match own.kind {
            RuleKind::Spread { max_skew, min_domains, selects_self, .. } => {
                let top = max_skew + self.least(rule.group, min_domains);
                match selects_self {
                    true => top.saturating_sub(tally.matched),
                    false if tally.matched <= top => u32::MAX,
                    false => 0,
                }
            }
            RuleKind::Affinity { .. } | RuleKind::AntiAffinity { .. } => self.affinity_cap(class, own, tally.matched),
        }
    }

    /// The count of the least filled eligible domain; zero when there are fewer domains than
    /// `min_domains`.
    fn least(&mut self, group: GroupId, min_domains: u32) -> u32 {
        let (eligible_domains, certain) = if self.present_domains_only {
            self.present_domains(group)
        } else {
            let eligible_domains = self.eligible_domains(group);
            let all = eligible_domains.len();
            (eligible_domains, all)
        };
        if certain < min_domains as usize {
            return 0;
        }
        // Pods on a machine that may turn out not to count do not raise the minimum.
        let sure = |domain: DomainId| self.topology.tally(group, domain).certain();
        let least = eligible_domains.iter().map(|domain| sure(*domain)).min();
        if least == Some(0) || (least.is_some() && !self.topology.may_count_beyond(group, eligible_domains.len())) {
            return least.unwrap_or(0);
        }
        // A preference may have created a domain outside the eligible ones.
        self.topology.filled(group).map(|(domain, _)| sure(domain)).chain(least).min().unwrap_or(0)
    }

    /// Reorders the placements since `from` by resulting level, so that every prefix keeps the
    /// spread.
    fn interleave(&mut self, from: usize, key: KeyId) {
        let mut filled: std::collections::BTreeMap<Option<DomainId>, u32> = std::collections::BTreeMap::new();
        let mut steps: Vec<(u32, Option<DomainId>, super::machines::PlacementEvent)> = Vec::new();
        let events = self.events.split_off(from);
        for event in events {
            let domain = self.domain_of_destination(event.destination, key);
            for _ in 0..event.count {
                let level = filled.entry(domain).or_insert(0);
                *level += 1;
                steps.push((*level, domain, super::machines::PlacementEvent { count: 1, ..event }));
            }
        }
        // Levels start at each domain's count before these placements.
        let group_counts = |domain: Option<DomainId>| filled.get(&domain).copied().unwrap_or(0);
        let Some(class) = steps.first().map(|(_, _, event)| event.class) else { return };
        let group =
            self.problem.classes[class as usize].rules.iter().find(|rule| rule.key == key).map(|rule| rule.group);
        for step in &mut steps {
            if let (Some(group), Some(domain)) = (group, step.1) {
                step.0 += self.topology.tally(group, domain).matched.saturating_sub(group_counts(step.1));
            }
        }
        steps.sort_by_key(|(level, domain, _)| (*level, *domain));
        self.events.extend(steps.into_iter().map(|(_, _, event)| event));
    }

    fn domain_of_destination(&mut self, destination: Destination, key: KeyId) -> Option<DomainId> {
        match destination {
            Destination::Existing(at) => self.existing_nodes[at as usize].domains[usize::from(key) - 1],
            Destination::New(id) => {
                let cohort = &self.cohorts[self.cohort_of[id as usize] as usize];
                let (fit, pool) = (cohort.fit, cohort.pool);
                match *self.domains_of_fit(fit, pool, key) {
                    [only] => Some(only),
                    _ => None,
                }
            }
        }
    }
}

/// The level to which `amount` fills columns of these heights (sorted), rounded up.
fn water_level(heights: &[u64], amount: u64) -> u64 {
    let mut sum = 0;
    for (at, height) in heights.iter().enumerate() {
        sum += height;
        let columns = at as u64 + 1;
        let level = (sum + amount).div_ceil(columns);
        if heights.get(at + 1).is_none_or(|next| level <= *next) {
            return level;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::water_level;

    #[test]
    fn the_water_level_fills_the_lowest_columns_first() {
        assert_eq!(water_level(&[0, 0, 0], 10), 4);
        assert_eq!(water_level(&[0, 5], 3), 3);
        assert_eq!(water_level(&[1, 2, 9], 4), 4);
        assert_eq!(water_level(&[2], 0), 2);
    }
}
