//! The domain of each host, per topology key.

use rustc_hash::FxHashMap;

use super::super::launch::{Launch, Launches};
use model::Text;
use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::plan::Plan;

/// The domain of a host for one topology key.
#[derive(Debug, Clone, Copy)]
pub enum HostDomain<'d> {
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

/// The domains of all hosts for one topology key: nodes of the input, then planned nodes for pods.
#[derive(Debug)]
pub struct KeyDomains<'a> {
    key: Text,
    of_host: Vec<DomainCode>,
    numbers: FxHashMap<&'a str, u32>,
    /// The name of each domain. That of a planned node among the hostnames is the node's name.
    names: Vec<&'a str>,
    several: Vec<Vec<u32>>,
}

#[derive(Debug, Clone, Copy)]
enum DomainCode {
    Absent,
    One(u32),
    OneOf(u32),
}

impl<'a> Domains<'a> {
    /// Collects the domain of every host for every key.
    pub(super) fn collect(input: &'a PlanningInput, plan: &'a Plan, launches: &Launches<'a>, keys: &[&str]) -> Self {
        Self { keys: keys.iter().map(|key| KeyDomains::of(input, plan, launches, key)).collect() }
    }

    /// The domain of `host` for the key with this number.
    pub(super) fn of_host(&self, key: u32, host: u32) -> HostDomain<'_> {
        self.keys[key as usize].of_host(host)
    }

    /// The domains of the key with this number.
    pub(super) fn of_key(&self, key: u32) -> &KeyDomains<'a> {
        &self.keys[key as usize]
    }

    pub(super) fn key(&self, key: u32) -> &str {
        self.keys[key as usize].key()
    }
}

impl<'a> KeyDomains<'a> {
    /// Collects the domain of every host for `key`.
    #[must_use]
    pub fn of(input: &'a PlanningInput, plan: &'a Plan, launches: &Launches<'a>, key: &str) -> Self {
        let mut domains = Self {
            key: key.into(),
            of_host: Vec::new(),
            numbers: FxHashMap::default(),
            names: Vec::new(),
            several: Vec::new(),
        };
        for node in &input.nodes {
            let code = node.labels.get(key).map_or(DomainCode::Absent, |value| DomainCode::One(domains.domain(value)));
            domains.of_host.push(code);
        }
        let of_launch: Vec<DomainCode> = if key == HOSTNAME {
            Vec::new()
        } else {
            launches.list.iter().map(|launch| domains.launch(launch)).collect()
        };
        for (node, launch) in plan.nodes.iter().zip(&launches.of_node) {
            let code = match launch {
                None => DomainCode::Absent,
                // A planned node is a domain of its own, even if a node of the input has its name.
                Some(_) if key == HOSTNAME => DomainCode::One(domains.add(&node.name)),
                Some(launch) => of_launch[*launch as usize],
            };
            domains.of_host.push(code);
        }
        domains
    }

    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The domain of `host`.
    #[must_use]
    pub fn of_host(&self, host: u32) -> HostDomain<'_> {
        match self.of_host[host as usize] {
            DomainCode::Absent => HostDomain::Absent,
            DomainCode::One(domain) => HostDomain::One(domain),
            DomainCode::OneOf(several) => HostDomain::OneOf(&self.several[several as usize]),
        }
    }

    /// The number of the domain with this name; none for planned nodes among the hostnames.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The names of the domains, by number.
    #[must_use]
    pub fn names(&self) -> &[&'a str] {
        &self.names
    }

    pub(super) fn hosts(&self) -> u32 {
        u32::try_from(self.of_host.len()).unwrap_or(u32::MAX)
    }

    fn add(&mut self, name: &'a str) -> u32 {
        self.names.push(name);
        u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX)
    }

    /// The number of the domain with this name, which is added if there is none.
    fn domain(&mut self, name: &'a str) -> u32 {
        if let Some(known) = self.numbers.get(name) {
            return *known;
        }
        let domain = self.add(name);
        self.numbers.insert(name, domain);
        domain
    }

    fn launch(&mut self, launch: &Launch<'a>) -> DomainCode {
        let known = launch.values(&self.key);
        let domains: Vec<u32> = known.iter().flatten().map(|value| self.domain(value)).collect();
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
