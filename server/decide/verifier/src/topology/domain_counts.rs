//! Running counts for one query: selected pods per domain, the global minimum, and the domains
//! excluded by anti-affinity.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::super::launch::Launches;
use super::domains::{HostDomain, KeyDomains};
use super::filter::{Admission, HostFilter};
use model::input::PlanningInput;

/// Selected pods per domain of one key. Pods on hosts with an undecided domain are counted apart:
/// each may or may not be in a domain.
#[derive(Debug)]
pub struct DomainCounts<'b> {
    key: u32,
    admitted: Option<&'b [Admission]>,
    certain: FxHashMap<u32, i64>,
    possible: FxHashMap<u32, i64>,
    /// Pods counted in any domain, certain or possible.
    anywhere: u64,
    /// Domains that hold, or may hold, a pod with anti-affinity against the selected pods.
    excluded: FxHashMap<u32, u64>,
    minimum: Option<MinimumTracker>,
}

/// The domains of one key on the hosts admitted by one filter.
#[derive(Debug)]
pub struct EligibleDomains {
    /// Domains that may exist, as a mask.
    possible: Vec<bool>,
    /// Number of domains that certainly exist.
    certain: usize,
}

/// Occupancy of the domains over which a spread constraint takes its global minimum.
#[derive(Debug)]
struct MinimumTracker {
    eligible: Rc<EligibleDomains>,
    /// Number of possible domains by their certain pod count.
    domains_with: Vec<usize>,
    /// The lowest non-zero index of `domains_with`.
    least: usize,
}

impl<'b> DomainCounts<'b> {
    /// Counts over `key` on the `admitted` hosts; tracks the minimum if `eligible` domains are
    /// given.
    #[must_use]
    pub fn new(key: u32, admitted: Option<&'b [Admission]>, eligible: Option<Rc<EligibleDomains>>) -> Self {
        Self {
            key,
            admitted,
            certain: FxHashMap::default(),
            possible: FxHashMap::default(),
            anywhere: 0,
            excluded: FxHashMap::default(),
            minimum: eligible.map(MinimumTracker::of),
        }
    }

    pub(super) fn key(&self) -> u32 {
        self.key
    }

    /// Whether pods on `host` are counted.
    #[must_use]
    pub fn admits(&self, host: u32) -> bool {
        self.admitted.is_none_or(|admitted| admitted[host as usize] != Admission::No)
    }

    /// Counts a selected pod on a host of this domain.
    pub fn count(&mut self, host_domain: HostDomain<'_>) {
        match host_domain {
            HostDomain::Absent => return,
            HostDomain::One(domain) => {
                let count = self.certain.entry(domain).or_insert(0);
                *count += 1;
                if let Some(minimum) = &mut self.minimum {
                    minimum.increment(domain, *count);
                }
            }
            HostDomain::OneOf(domains) => {
                domains.iter().for_each(|domain| *self.possible.entry(*domain).or_insert(0) += 1);
            }
        }
        self.anywhere += 1;
    }

    /// Takes a pod that was counted on an existing host of this domain out of the counts.
    pub(super) fn uncount(&mut self, host_domain: HostDomain<'_>) {
        let HostDomain::One(domain) = host_domain else { return };
        let Some(count) = self.certain.get_mut(&domain).filter(|count| **count > 0) else { return };
        *count -= 1;
        self.anywhere -= 1;
        if let Some(minimum) = &mut self.minimum {
            minimum.decrement(domain, *count);
        }
    }

    /// Takes a pod with anti-affinity that was recorded on an existing host of this domain out of the records.
    pub(super) fn unexclude(&mut self, host_domain: HostDomain<'_>) {
        let HostDomain::One(domain) = host_domain else { return };
        if let Some(count) = self.excluded.get_mut(&domain) {
            *count -= 1;
            if *count == 0 {
                self.excluded.remove(&domain);
            }
        }
    }

    /// Records a pod with anti-affinity against the selected pods.
    pub(super) fn exclude(&mut self, host_domain: HostDomain<'_>) {
        match host_domain {
            HostDomain::Absent => {}
            HostDomain::One(domain) => *self.excluded.entry(domain).or_insert(0) += 1,
            HostDomain::OneOf(domains) => {
                domains.iter().for_each(|domain| *self.excluded.entry(*domain).or_insert(0) += 1);
            }
        }
    }

    /// Whether a pod with anti-affinity against the selected pods is, or may be, in the same
    /// domain.
    pub(super) fn excludes(&self, host_domain: HostDomain<'_>) -> bool {
        match host_domain {
            _ if self.excluded.is_empty() => false,
            HostDomain::Absent => false,
            HostDomain::One(domain) => self.excluded.contains_key(&domain),
            HostDomain::OneOf(domains) => domains.iter().any(|domain| self.excluded.contains_key(domain)),
        }
    }

    /// Selected pods in a domain, those included that may be there.
    #[must_use]
    pub fn max_count(&self, domain: u32) -> i64 {
        self.min_count(domain) + self.possible.get(&domain).copied().unwrap_or(0)
    }

    /// Selected pods that are certainly in a domain.
    #[must_use]
    pub fn min_count(&self, domain: u32) -> i64 {
        self.certain.get(&domain).copied().unwrap_or(0)
    }

    /// Whether no selected pod is in any domain.
    pub(super) fn is_empty(&self) -> bool {
        self.anywhere == 0
    }

    /// The global minimum: zero while fewer than `min_domains` domains certainly exist.
    #[must_use]
    pub fn global_minimum(&self, min_domains: Option<i32>) -> i64 {
        let Some(minimum) = &self.minimum else { return 0 };
        if min_domains.is_some_and(|least| usize::try_from(least).is_ok_and(|least| minimum.eligible.certain < least)) {
            return 0;
        }
        i64::try_from(minimum.least).unwrap_or(i64::MAX)
    }
}

impl EligibleDomains {
    #[must_use]
    pub fn contains(&self, domain: u32) -> bool {
        self.possible[domain as usize]
    }

    /// Number of domains that certainly exist.
    #[must_use]
    pub fn certain(&self) -> usize {
        self.certain
    }

    /// The domains of `domains` over which a spread constraint takes its minimum: those of hosts
    /// that `filter` admits. `admitted` are its admissions.
    #[must_use]
    pub fn of<'l>(
        input: &PlanningInput,
        launches: &Launches<'l>,
        domains: &KeyDomains<'l>,
        filter: &HostFilter<'_>,
        admitted: &[Admission],
    ) -> Self {
        // If admission of a host depends on the outcome of its launch, only the domains of the
        // admitted outcomes are possible.
        let mut known: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let mut admitted_domains = |host: u32| {
            let Some(number) = launches.number_of_host(input.nodes.len(), host) else { return Vec::new() };
            let domains_of = || {
                let values = filter.admitted_values(&launches.list[number as usize], domains.key());
                values.into_iter().filter_map(|value| domains.number(value)).collect()
            };
            known.entry(number).or_insert_with(domains_of).clone()
        };
        let mut possible = vec![false; domains.names().len()];
        let mut certain = vec![false; domains.names().len()];
        for (host, admitted) in (0..domains.hosts()).zip(admitted) {
            if matches!(admitted, Admission::No | Admission::PodsOnly) {
                continue;
            }
            match domains.of_host(host) {
                HostDomain::Absent => {}
                HostDomain::One(domain) => {
                    possible[domain as usize] = true;
                    certain[domain as usize] |= *admitted == Admission::Yes;
                }
                HostDomain::OneOf(_) if *admitted == Admission::Depends => {
                    admitted_domains(host).into_iter().for_each(|domain| possible[domain as usize] = true);
                }
                HostDomain::OneOf(several) => several.iter().for_each(|domain| possible[*domain as usize] = true),
            }
        }
        let certain = certain.iter().filter(|there| **there).count();
        Self { possible, certain }
    }
}

impl MinimumTracker {
    fn of(eligible: Rc<EligibleDomains>) -> Self {
        let empty = eligible.possible.iter().filter(|there| **there).count();
        Self { eligible, domains_with: vec![empty], least: 0 }
    }

    /// Updates the minimum after a domain has reached `count` pods.
    fn increment(&mut self, domain: u32, count: i64) {
        if !self.eligible.possible[domain as usize] {
            return;
        }
        let count = usize::try_from(count).unwrap_or(0);
        if self.domains_with.len() <= count {
            self.domains_with.resize(count + 1, 0);
        }
        self.domains_with[count] += 1;
        self.domains_with[count - 1] -= 1;
        while self.domains_with[self.least] == 0 {
            self.least += 1;
        }
    }

    /// Updates the minimum after a domain has come down to `count` pods.
    fn decrement(&mut self, domain: u32, count: i64) {
        if !self.eligible.possible[domain as usize] {
            return;
        }
        let count = usize::try_from(count).unwrap_or(0);
        self.domains_with[count] += 1;
        self.domains_with[count + 1] -= 1;
        self.least = self.least.min(count);
    }
}
