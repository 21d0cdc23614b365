//! Rules over wide domains (zones and other labels): where the next pods of a class may go, and how many at once.

use std::collections::BTreeSet;
use std::rc::Rc;

use smallvec::SmallVec;

use super::classes::{Owned, Rule};
use super::fits::FitId;
use super::machines::Place;
use super::packing::{Packing, Pin, PreferenceSet, Reach, in_force};
use super::stall::is_slot_key;
use super::topology::{ABSENT, DomainId, GroupId, KeyId, Topology};
use crate::model::labels::{CAPACITY_TYPE, NODECLASS, NODEPOOL};

/// Combinations of domains beyond which further ones are not tried.
const MAX_TARGETS: usize = 256;

pub(super) type Pins = SmallVec<[Pin; 1]>;

/// A rule of a class over a wide key: its own, or one that pods placed before impose on it.
#[derive(Debug, Clone)]
pub(super) struct WideRule {
    key: KeyId,
    group: GroupId,
    /// Index into the class's own rules; `None` when another pod's anti-affinity imposes it.
    own: Option<usize>,
}

impl Packing<'_, '_> {
    /// The rules over wide keys that bind `class`.
    pub(super) fn wide_rules(&self, class: u32, softs: PreferenceSet) -> Vec<WideRule> {
        let needs = &self.problem.classes[class as usize];
        let wide = |owned: &Owned| owned.key != Topology::HOST && in_force(owned.soft, softs);
        let own = needs.owned.iter().enumerate().filter(|(_, owned)| wide(owned));
        let own = own.map(|(at, owned)| WideRule { key: owned.key, group: owned.group, own: Some(at) });
        let imposed = needs.meant_by.iter().filter(|group| {
            let spec = &self.topology.groups[**group as usize];
            spec.anti && spec.key != Topology::HOST && self.topology.is_owned(**group)
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
        softs: PreferenceSet,
        reach: Reach,
        rules: &[WideRule],
    ) -> u32 {
        let from = self.events.len();
        let levelled = self.levelled(class, rules).filter(|_| self.level_by_level);
        let mut exhausted: BTreeSet<Vec<DomainId>> = BTreeSet::new();
        let mut left = count;
        while left > 0 && !self.steps.are_spent() {
            let targets = self.targets(class, softs, rules);
            let name = |pins: &Pins| pins.iter().map(|pin| pin.domain).collect::<Vec<_>>();
            let Some(pins) = targets.iter().find(|pins| !exhausted.contains(&name(pins))) else { break };
            let cap = self.cap_of(class, pins, rules);
            let batch = match levelled {
                Some(rule) if reach == Reach::Buy && self.is_ample(class, left, softs, &targets, pins) => {
                    self.level_share(class, rule, left, pins, &targets).max(cap)
                }
                _ => cap,
            };
            let got = self.fill(class, batch.min(left), pins, softs, reach);
            left -= got;
            if got < batch.min(count) && got == 0 {
                exhausted.insert(name(pins));
            }
        }
        if let Some(rule) = levelled {
            self.interleave(from, rule.key);
        }
        count - left
    }

    /// The rule whose domains are to be filled level by level, when that is all that binds the class.
    fn levelled<'r>(&self, class: u32, rules: &'r [WideRule]) -> Option<&'r WideRule> {
        let needs = &self.problem.classes[class as usize];
        let selfish = |rule: &&WideRule| {
            rule.own.is_some_and(|at| matches!(needs.owned[at].rule, Rule::Spread { selfish: true, .. }))
        };
        match rules {
            [only] => Some(only).filter(selfish),
            _ => None,
        }
    }

    /// Whether no limit can stand between the class and an even spread over `targets`, so that a domain may take its whole
    /// share before the others have theirs.
    fn is_ample(&mut self, class: u32, count: u32, softs: PreferenceSet, targets: &[Pins], pins: &Pins) -> bool {
        targets.contains(pins) && targets.iter().all(|pins| self.can_always_buy(class, count, softs, pins))
    }

    /// How many pods the domain of `pins` gets when `left` are spread evenly over the universe of `rule`.
    fn level_share(&mut self, class: u32, rule: &WideRule, left: u32, pins: &Pins, targets: &[Pins]) -> u32 {
        let Some(own) = rule.own else { return 0 };
        let universe = self.universe(rule.group);
        if let Rule::Spread { min_domains, .. } = self.problem.classes[class as usize].owned[own].rule
            && universe.len() < min_domains as usize
        {
            // Too few domains: the least counts as zero however full they are, so nothing can be levelled.
            return 0;
        }
        // A domain that only a preference made has no share, and none has one while some pods may turn out not to count.
        let doubtful = |domain: DomainId| self.topology.tally(rule.group, domain).doubtful > 0;
        if self.topology.filled(rule.group).any(|(domain, _)| !universe.contains(&domain) || doubtful(domain)) {
            return 0;
        }
        let count_in = |domain: DomainId| u64::from(self.topology.tally(rule.group, domain).matched);
        let mut counts: Vec<u64> = universe.iter().map(|domain| count_in(*domain)).collect();
        counts.sort_unstable();
        let level = water_level(&counts, u64::from(left));
        // Domains that are not among the targets stand still. Those below the level would be left behind: no share beyond
        // the rule. Those that reach it have had their share before.
        let stands_still = |domain: &DomainId| !targets.iter().any(|pins| pins[0].domain == *domain);
        if universe.iter().any(|domain| stands_still(domain) && count_in(*domain) < level) {
            return 0;
        }
        let own_count = count_in(pins[0].domain);
        u32::try_from(level.saturating_sub(own_count)).unwrap_or(u32::MAX)
    }

    /// Domain combinations that the rules allow now, in the order in which they are to be tried.
    pub(super) fn targets(&mut self, class: u32, softs: PreferenceSet, rules: &[WideRule]) -> Vec<Pins> {
        let mut keys: Vec<KeyId> = rules.iter().map(|rule| rule.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut targets: Vec<Pins> = vec![Pins::new()];
        for key in keys {
            let allowed = self.allowed(class, softs, key, rules);
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

    /// Domains of `key` that every rule over it allows, least filled first, then cheapest, then by name.
    fn allowed(&mut self, class: u32, softs: PreferenceSet, key: KeyId, rules: &[WideRule]) -> Vec<DomainId> {
        let over: Vec<&WideRule> = rules.iter().filter(|rule| rule.key == key).collect();
        let reachable = self.reachable(class, softs, key);
        let mut ranked: Vec<(u32, i64, crate::model::Text, DomainId)> = Vec::new();
        for domain in reachable.iter().copied() {
            self.steps.take(over.len());
            if over.iter().all(|rule| self.rule_cap(class, rule, domain) > 0) {
                // Only rules of its own say that emptier is better; what others impose says yes or no.
                let own = over.iter().filter(|rule| rule.own.is_some());
                let filled = own.map(|rule| self.topology.tally(rule.group, domain).matched).max().unwrap_or(0);
                let price = self.domain_price(class, softs, Pin { key, domain });
                ranked.push((filled, price, self.topology.domain_name(key, domain).clone(), domain));
            }
        }
        if over.iter().all(|rule| self.rule_cap(class, rule, ABSENT) > 0) && self.may_lack(class, softs, key) {
            ranked.push((0, i64::MAX, crate::model::Text::from(""), ABSENT));
        }
        ranked.sort();
        ranked.into_iter().map(|(_, _, _, domain)| domain).collect()
    }

    /// The most pods that all rules allow in the domains `pins` at this moment.
    fn cap_of(&mut self, class: u32, pins: &Pins, rules: &[WideRule]) -> u32 {
        let domain_of = |key: KeyId| pins.iter().find(|pin| pin.key == key).map(|pin| pin.domain);
        rules
            .iter()
            .map(|rule| domain_of(rule.key).map_or(0, |domain| self.rule_cap(class, rule, domain)))
            .min()
            .unwrap_or(u32::MAX)
    }

    /// The most pods that `rule` allows in `domain` at this moment.
    fn rule_cap(&mut self, class: u32, rule: &WideRule, domain: DomainId) -> u32 {
        let tally = self.topology.tally(rule.group, domain);
        let Some(own) = rule.own else { return if tally.owners > 0 { 0 } else { u32::MAX } };
        if domain == ABSENT {
            let apart = matches!(self.problem.classes[class as usize].owned[own].rule, Rule::Without { .. });
            return if apart { u32::MAX } else { 0 };
        }
        match self.problem.classes[class as usize].owned[own].rule {
            Rule::Spread { max_skew, min_domains, selfish, .. } => {
                let top = max_skew + self.least(rule.group, min_domains);
                match selfish {
                    true => top.saturating_sub(tally.matched),
                    false if tally.matched <= top => u32::MAX,
                    false => 0,
                }
            }
            Rule::With { .. } if tally.matched > 0 => u32::MAX,
            Rule::With { bootstrap } if bootstrap && self.is_first(class, own) => u32::MAX,
            Rule::With { .. } => 0,
            Rule::Without { .. } if tally.matched > 0 => 0,
            Rule::Without { selfish } => {
                if selfish {
                    1
                } else {
                    u32::MAX
                }
            }
        }
    }

    /// The count of the least filled eligible domain; zero when there are fewer domains than `min_domains`.
    fn least(&mut self, group: GroupId, min_domains: u32) -> u32 {
        let (universe, certain) = if self.present_domains_only {
            self.present(group)
        } else {
            let universe = self.universe(group);
            let all = universe.len();
            (universe, all)
        };
        if certain < min_domains as usize {
            return 0;
        }
        // Pods on a machine that may turn out not to count raise no minimum.
        let sure = |domain: DomainId| self.topology.tally(group, domain).sure();
        let least = universe.iter().map(|domain| sure(*domain)).min();
        if least == Some(0) || (least.is_some() && !self.topology.may_count_beyond(group, universe.len())) {
            return least.unwrap_or(0);
        }
        // A preference may have made a domain that no machine has to be in.
        self.topology.filled(group).map(|(domain, _)| sure(domain)).chain(least).min().unwrap_or(0)
    }

    /// The domains of `key` that the options of `fit` could be in.
    pub(super) fn domains_of_fit(&mut self, fit: FitId, pool: u32, key: KeyId) -> Rc<[DomainId]> {
        if let Some(known) = self.fit_domains.get(&(fit, pool, key)) {
            return known.clone();
        }
        let name = self.topology.key_name(key).clone();
        let values = self.values_of_fit(fit, pool, &name);
        let domains: BTreeSet<DomainId> = values.iter().map(|value| self.topology.domain(key, value)).collect();
        let domains: Rc<[DomainId]> = domains.into_iter().collect();
        self.fit_domains.insert((fit, pool, key), domains.clone());
        domains
    }

    fn values_of_fit(&self, fit: FitId, at: u32, key: &str) -> BTreeSet<String> {
        let problem = self.problem;
        let pool = &problem.input.pools[at as usize];
        let Some(market) = &problem.markets[at as usize] else { return BTreeSet::new() };
        let fit = self.fits.fit(fit);
        match key {
            NODEPOOL => return BTreeSet::from([pool.name.to_string()]),
            NODECLASS => return BTreeSet::from([pool.node_class.to_string()]),
            _ => {}
        }
        if key == CAPACITY_TYPE || is_slot_key(pool, key) {
            let offered = |slot: &usize| fit.types.iter().any(|kind| market.machines[kind].slots.contains(*slot));
            let label = |slot: usize| market.slots[slot].label(key).map(str::to_owned);
            return fit.slots.iter().filter(offered).filter_map(label).collect();
        }
        let open = fit.open_labels.get(key).or_else(|| pool.requirements.get(key));
        let mut values = BTreeSet::new();
        let mut typed = false;
        for kind in fit.types.iter() {
            let kind = &pool.catalogue.types[market.machines[kind].index as usize];
            if let Some(known) = kind.labels.get(key) {
                typed = true;
                let allowed = known.finite_values().into_iter().flatten();
                values.extend(allowed.filter(|v| open.is_none_or(|open| open.has(v))).map(|v| v.to_string()));
            }
        }
        if !typed && let Some(open) = open.filter(|open| !open.allows_absence()) {
            match open.finite_values() {
                Some(finite) => values.extend(finite.iter().map(|v| v.to_string())),
                None => values.extend(open.representative().map(|v| v.to_string())),
            }
        }
        values
    }

    /// Puts the placements since `from` into an order in which every step keeps the spread: by resulting level.
    fn interleave(&mut self, from: usize, key: KeyId) {
        let mut filled: std::collections::BTreeMap<Option<DomainId>, u32> = std::collections::BTreeMap::new();
        let mut steps: Vec<(u32, Option<DomainId>, super::machines::Event)> = Vec::new();
        let events = self.events.split_off(from);
        for event in events {
            let domain = self.domain_of_place(event.place, key);
            for _ in 0..event.count {
                let level = filled.entry(domain).or_insert(0);
                *level += 1;
                steps.push((*level, domain, super::machines::Event { count: 1, ..event }));
            }
        }
        // Levels count from where each domain stood before.
        let group_counts = |domain: Option<DomainId>| filled.get(&domain).copied().unwrap_or(0);
        let Some(class) = steps.first().map(|(_, _, event)| event.class) else { return };
        let group =
            self.problem.classes[class as usize].owned.iter().find(|owned| owned.key == key).map(|owned| owned.group);
        for step in &mut steps {
            if let (Some(group), Some(domain)) = (group, step.1) {
                step.0 += self.topology.tally(group, domain).matched.saturating_sub(group_counts(step.1));
            }
        }
        steps.sort_by_key(|(level, domain, _)| (*level, *domain));
        self.events.extend(steps.into_iter().map(|(_, _, event)| event));
    }

    fn domain_of_place(&mut self, place: Place, key: KeyId) -> Option<DomainId> {
        match place {
            Place::ExistingNode(at) => self.rooms[at as usize].domains[usize::from(key) - 1],
            Place::New(id) => {
                let cohort = &self.cohorts[self.home[id as usize] as usize];
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
    fn water_finds_its_level() {
        assert_eq!(water_level(&[0, 0, 0], 10), 4);
        assert_eq!(water_level(&[0, 5], 3), 3);
        assert_eq!(water_level(&[1, 2, 9], 4), 4);
        assert_eq!(water_level(&[2], 0), 2);
    }
}
