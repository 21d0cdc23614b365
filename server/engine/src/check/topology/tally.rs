//! One running count: selected pods per domain, the least of them, and who bars whom.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::domains::{Domains, Place};
use super::filter::Admitted;

/// Pods per domain of one key. Pods on hosts whose domain is open count apart: they may or may not be there.
pub(super) struct Tally<'b> {
    key: u32,
    admitted: Option<&'b Vec<Admitted>>,
    certain: FxHashMap<u32, i64>,
    perhaps: FxHashMap<u32, i64>,
    /// Pods anywhere at all, in a domain or perhaps in one.
    anywhere: u64,
    /// Domains in which a pod stands, or may stand, that keeps the selected pods away.
    barred: FxHashMap<u32, u64>,
    universe: Option<Universe>,
}

/// The domains of one key on hosts that one filter admits.
pub(super) struct Ground {
    /// Domains that may come to be, as a mask.
    possible: Vec<bool>,
    /// Domains that will be there for sure.
    certain: usize,
}

/// How full the domains are over which a spread constraint takes its minimum.
struct Universe {
    ground: Rc<Ground>,
    /// How many possible domains hold exactly so many pods for sure.
    with: Vec<usize>,
    /// The least index of `with` that is not zero.
    least: usize,
}

impl<'b> Tally<'b> {
    /// A count over `key` on the hosts that are `admitted`; over a `ground`, a minimum is kept.
    pub(super) fn new(key: u32, admitted: Option<&'b Vec<Admitted>>, ground: Option<Rc<Ground>>) -> Self {
        Self {
            key,
            admitted,
            certain: FxHashMap::default(),
            perhaps: FxHashMap::default(),
            anywhere: 0,
            barred: FxHashMap::default(),
            universe: ground.map(Universe::of),
        }
    }

    pub(super) fn key(&self) -> u32 {
        self.key
    }

    /// Whether pods on `host` count.
    pub(super) fn admits(&self, host: u32) -> bool {
        self.admitted.is_none_or(|admitted| admitted[host as usize] != Admitted::No)
    }

    /// Counts a selected pod.
    pub(super) fn count(&mut self, place: Place<'_>) {
        match place {
            Place::Nowhere => return,
            Place::One(domain) => {
                let count = self.certain.entry(domain).or_insert(0);
                *count += 1;
                if let Some(universe) = &mut self.universe {
                    universe.one_more(domain, *count);
                }
            }
            Place::OneOf(domains) => {
                domains.iter().for_each(|domain| *self.perhaps.entry(*domain).or_insert(0) += 1);
            }
        }
        self.anywhere += 1;
    }

    /// Notes a pod that keeps the selected ones away.
    pub(super) fn bar(&mut self, place: Place<'_>) {
        match place {
            Place::Nowhere => {}
            Place::One(domain) => *self.barred.entry(domain).or_insert(0) += 1,
            Place::OneOf(domains) => {
                domains.iter().for_each(|domain| *self.barred.entry(*domain).or_insert(0) += 1);
            }
        }
    }

    /// Whether a pod stands, or may stand, in a domain of `place` that keeps the selected ones away.
    pub(super) fn bars(&self, place: Place<'_>) -> bool {
        match place {
            _ if self.barred.is_empty() => false,
            Place::Nowhere => false,
            Place::One(domain) => self.barred.contains_key(&domain),
            Place::OneOf(domains) => domains.iter().any(|domain| self.barred.contains_key(domain)),
        }
    }

    /// Selected pods in a domain, counting those that may be there.
    pub(super) fn at_most(&self, domain: u32) -> i64 {
        self.at_least(domain) + self.perhaps.get(&domain).copied().unwrap_or(0)
    }

    /// Selected pods in a domain for sure.
    pub(super) fn at_least(&self, domain: u32) -> i64 {
        self.certain.get(&domain).copied().unwrap_or(0)
    }

    /// Whether no selected pod stands in any domain.
    pub(super) fn is_empty(&self) -> bool {
        self.anywhere == 0
    }

    /// The global minimum: zero while fewer domains than `min_domains` are there for sure.
    pub(super) fn least(&self, min_domains: Option<i32>) -> i64 {
        let Some(universe) = &self.universe else { return 0 };
        if min_domains.is_some_and(|least| usize::try_from(least).is_ok_and(|least| universe.ground.certain < least)) {
            return 0;
        }
        i64::try_from(universe.least).unwrap_or(i64::MAX)
    }
}

impl Ground {
    /// The domains of `key` on the hosts that are `admitted`. Where that depends on what a launch ends in, `looked_at` says
    /// in which domains the host may be when it is.
    pub(super) fn of(
        domains: &Domains<'_>,
        key: u32,
        admitted: &[Admitted],
        mut looked_at: impl FnMut(u32) -> Vec<u32>,
    ) -> Self {
        let mut possible = vec![false; domains.count(key)];
        let mut certain = vec![false; domains.count(key)];
        for (host, admitted) in (0..domains.hosts(key)).zip(admitted) {
            if matches!(admitted, Admitted::No | Admitted::PodsOnly) {
                continue;
            }
            match domains.place(key, host) {
                Place::Nowhere => {}
                Place::One(domain) => {
                    possible[domain as usize] = true;
                    certain[domain as usize] |= *admitted == Admitted::Yes;
                }
                Place::OneOf(_) if *admitted == Admitted::Perhaps => {
                    looked_at(host).into_iter().for_each(|domain| possible[domain as usize] = true);
                }
                Place::OneOf(several) => several.iter().for_each(|domain| possible[*domain as usize] = true),
            }
        }
        let certain = certain.iter().filter(|there| **there).count();
        Self { possible, certain }
    }
}

impl Universe {
    fn of(ground: Rc<Ground>) -> Self {
        let empty = ground.possible.iter().filter(|there| **there).count();
        Self { ground, with: vec![empty], least: 0 }
    }

    /// A possible domain has come to `count` pods.
    fn one_more(&mut self, domain: u32, count: i64) {
        if !self.ground.possible[domain as usize] {
            return;
        }
        let count = usize::try_from(count).unwrap_or(0);
        if self.with.len() <= count {
            self.with.resize(count + 1, 0);
        }
        self.with[count] += 1;
        self.with[count - 1] -= 1;
        while self.with[self.least] == 0 {
            self.least += 1;
        }
    }
}
