//! Which domain each host is in, per topology key.

use rustc_hash::FxHashMap;

use super::super::launch::{Launch, Launches};
use crate::input::PlanningInput;
use crate::model::labels::HOSTNAME;
use crate::plan::Plan;

/// Where a host stands as far as one topology key goes.
#[derive(Clone, Copy)]
pub(super) enum Place<'d> {
    /// It lacks the label, or nobody can tell its value.
    Nowhere,
    /// In this domain.
    One(u32),
    /// In one of these; which one shows when it launches.
    OneOf(&'d [u32]),
}

/// Domains of all hosts.
pub(super) struct Domains<'a> {
    keys: Vec<Survey<'a>>,
}

struct Survey<'a> {
    key: &'a str,
    of_host: Vec<Code>,
    numbers: FxHashMap<&'a str, u32>,
    several: Vec<Vec<u32>>,
    domains: u32,
}

#[derive(Clone, Copy)]
enum Code {
    Nowhere,
    One(u32),
    OneOf(u32),
}

impl<'a> Domains<'a> {
    /// Looks every host up under every key.
    pub(super) fn survey(input: &'a PlanningInput, plan: &Plan, launches: &Launches<'a>, keys: &[&'a str]) -> Self {
        Self { keys: keys.iter().map(|key| Survey::of(input, plan, launches, key)).collect() }
    }

    /// Where `host` stands under the key of that number.
    pub(super) fn place(&self, key: u32, host: u32) -> Place<'_> {
        let survey = &self.keys[key as usize];
        match survey.of_host[host as usize] {
            Code::Nowhere => Place::Nowhere,
            Code::One(domain) => Place::One(domain),
            Code::OneOf(several) => Place::OneOf(&survey.several[several as usize]),
        }
    }

    /// The number of the domain of a key with this name.
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

impl<'a> Survey<'a> {
    fn of(input: &'a PlanningInput, plan: &Plan, launches: &Launches<'a>, key: &'a str) -> Self {
        let mut survey =
            Self { key, of_host: Vec::new(), numbers: FxHashMap::default(), several: Vec::new(), domains: 0 };
        let mut values: FxHashMap<&'a str, u32> = FxHashMap::default();
        for node in &input.nodes {
            let code = node.labels.get(key).map_or(Code::Nowhere, |value| Code::One(survey.domain(&mut values, value)));
            survey.of_host.push(code);
        }
        let of_launch: Vec<Code> = if key == HOSTNAME {
            Vec::new()
        } else {
            launches.list.iter().map(|launch| survey.launch(&mut values, launch)).collect()
        };
        for launch in launches.of_node.iter().take(plan.nodes.len()) {
            let code = match launch {
                None => Code::Nowhere,
                Some(_) if key == HOSTNAME => {
                    survey.domains += 1;
                    Code::One(survey.domains - 1)
                }
                Some(launch) => of_launch[*launch as usize],
            };
            survey.of_host.push(code);
        }
        survey.numbers = values;
        survey
    }

    fn domain(&mut self, values: &mut FxHashMap<&'a str, u32>, value: &'a str) -> u32 {
        let next = self.domains;
        let domain = *values.entry(value).or_insert(next);
        self.domains = self.domains.max(domain + 1);
        domain
    }

    fn launch(&mut self, values: &mut FxHashMap<&'a str, u32>, launch: &Launch<'a>) -> Code {
        let known = launch.values(self.key);
        let domains: Vec<u32> = known.iter().flatten().map(|value| self.domain(values, value)).collect();
        match domains.as_slice() {
            [] => Code::Nowhere,
            [domain] if known.len() == 1 => Code::One(*domain),
            _ => {
                self.several.push(domains);
                Code::OneOf(u32::try_from(self.several.len() - 1).unwrap_or(u32::MAX))
            }
        }
    }
}
