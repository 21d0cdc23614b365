//! The domain of each host, per topology key.

use rustc_hash::FxHashMap;

use super::super::launch::{Launch, Launches};
use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::plan::Plan;

/// The domain of a host for one topology key.
#[derive(Clone, Copy)]
pub(super) enum HostDomain<'d> {
    /// The host lacks the label, or its value is unknown.
    Absent,
    /// The host is in this domain.
    One(u32),
    /// The host is in one of these domains, decided at launch.
    OneOf(&'d [u32]),
}

/// The domains of all hosts, per topology key.
pub(super) struct Domains<'a> {
    keys: Vec<KeyDomains<'a>>,
}

struct KeyDomains<'a> {
    key: &'a str,
    of_host: Vec<DomainCode>,
    numbers: FxHashMap<&'a str, u32>,
    several: Vec<Vec<u32>>,
    domains: u32,
}

#[derive(Clone, Copy)]
enum DomainCode {
    Absent,
    One(u32),
    OneOf(u32),
}

impl<'a> Domains<'a> {
    /// Collects the domain of every host for every key.
    pub(super) fn collect(input: &'a PlanningInput, plan: &Plan, launches: &Launches<'a>, keys: &[&'a str]) -> Self {
        Self { keys: keys.iter().map(|key| KeyDomains::of(input, plan, launches, key)).collect() }
    }

    /// The domain of `host` for the key with this number.
    pub(super) fn of_host(&self, key: u32, host: u32) -> HostDomain<'_> {
        let domains = &self.keys[key as usize];
        match domains.of_host[host as usize] {
            DomainCode::Absent => HostDomain::Absent,
            DomainCode::One(domain) => HostDomain::One(domain),
            DomainCode::OneOf(several) => HostDomain::OneOf(&domains.several[several as usize]),
        }
    }

    /// The number of the domain with this name.
    pub(super) fn number(&self, key: u32, name: &str) -> Option<u32> {
        self.keys[key as usize].numbers.get(name).copied()
    }

    /// The name of a key.
    pub(super) fn key(&self, key: u32) -> &'a str {
        self.keys[key as usize].key
    }

    /// How many domains a key has.
    pub(super) fn count(&self, key: u32) -> usize {
        self.keys[key as usize].domains as usize
    }

    /// How many hosts there are.
    pub(super) fn hosts(&self, key: u32) -> u32 {
        u32::try_from(self.keys[key as usize].of_host.len()).unwrap_or(u32::MAX)
    }
}

impl<'a> KeyDomains<'a> {
    fn of(input: &'a PlanningInput, plan: &Plan, launches: &Launches<'a>, key: &'a str) -> Self {
        let mut domains =
            Self { key, of_host: Vec::new(), numbers: FxHashMap::default(), several: Vec::new(), domains: 0 };
        let mut values: FxHashMap<&'a str, u32> = FxHashMap::default();
        for node in &input.nodes {
            let code = node
                .labels
                .get(key)
                .map_or(DomainCode::Absent, |value| DomainCode::One(domains.domain(&mut values, value)));
            domains.of_host.push(code);
        }
        let of_launch: Vec<DomainCode> = if key == HOSTNAME {
            Vec::new()
        } else {
            launches.list.iter().map(|launch| domains.launch(&mut values, launch)).collect()
        };
        for launch in launches.of_node.iter().take(plan.nodes.len()) {
            let code = match launch {
                None => DomainCode::Absent,
                Some(_) if key == HOSTNAME => {
                    domains.domains += 1;
                    DomainCode::One(domains.domains - 1)
                }
                Some(launch) => of_launch[*launch as usize],
            };
            domains.of_host.push(code);
        }
        domains.numbers = values;
        domains
    }

    fn domain(&mut self, values: &mut FxHashMap<&'a str, u32>, value: &'a str) -> u32 {
        let next = self.domains;
        let domain = *values.entry(value).or_insert(next);
        self.domains = self.domains.max(domain + 1);
        domain
    }

    fn launch(&mut self, values: &mut FxHashMap<&'a str, u32>, launch: &Launch<'a>) -> DomainCode {
        let known = launch.values(self.key);
        let domains: Vec<u32> = known.iter().flatten().map(|value| self.domain(values, value)).collect();
        match domains.as_slice() {
            [] => DomainCode::Absent,
            [domain] if known.len() == 1 => DomainCode::One(*domain),
            _ => {
                self.several.push(domains);
                DomainCode::OneOf(u32::try_from(self.several.len() - 1).unwrap_or(u32::MAX))
            }
        }
    }
}
