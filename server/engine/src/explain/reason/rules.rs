//! Topology rules in words: who is where, and where the pod could stand.

use std::collections::{BTreeMap, BTreeSet};

use crate::explain::topology::{Barrier, Site, Spread};
use crate::explain::wording::{selector, some};
use crate::model::PodAffinityTerm;

use super::{LISTED, Speaker};

impl Speaker<'_> {
    /// A topology rule, with who is where and where the pod could stand.
    pub(super) fn topology(&self, barrier: Barrier, sites: &[Site]) -> String {
        match barrier {
            Barrier::Spread(at) => spread(&self.topology.spread[at], sites),
            Barrier::Affinity(at) => {
                let rule = &self.topology.affinity[at];
                let term = &self.ask.shape.pod_affinity[rule.index];
                let there: Vec<String> = rule.domains.iter().map(|(value, (n, _))| format!("{value} ({n})")).collect();
                let offered = offered(&rule.key, sites);
                let there = if there.is_empty() {
                    "no such pod has a place".to_owned()
                } else {
                    format!("such pods are in {}", some(&there, LISTED))
                };
                format!("needs to share {} with {}; {there}, and it could stand in {offered}", rule.key, who(term))
            }
            Barrier::AntiAffinity(at) => {
                let rule = &self.topology.anti[at];
                let term = &self.ask.shape.pod_anti_affinity[rule.index];
                let there: Vec<String> =
                    rule.domains.iter().map(|(value, (n, one))| format!("{value} ({n}, such as {one})")).collect();
                let offered = offered(&rule.key, sites);
                format!(
                    "must not share {} with {}; they are in {}, and it could stand in {offered}",
                    rule.key,
                    who(term),
                    some(&there, LISTED)
                )
            }
            Barrier::Foe => self.foe(sites),
        }
    }

    fn foe(&self, sites: &[Site]) -> String {
        let hits = sites.iter().flatten().filter_map(|(key, value)| {
            let pod = self.topology.foes.get(&(key.clone(), value.clone()))?;
            Some(format!("{pod} in {key}={value}"))
        });
        let hits: Vec<String> = hits.collect::<BTreeSet<String>>().into_iter().collect();
        format!("other pods refuse it by their own anti-affinity: {}", some(&hits, LISTED))
    }
}

fn who(term: &PodAffinityTerm) -> String {
    let pods = format!("pods with {}", selector(term.selector.as_ref()));
    if term.namespaces.is_empty() { pods } else { format!("{pods} in namespace {}", term.namespaces.join(", ")) }
}

/// The values of `key` among `sites`.
fn offered(key: &str, sites: &[Site]) -> String {
    let values: BTreeSet<&str> = sites.iter().filter_map(|site| site.get(key)).map(AsRef::as_ref).collect();
    let values: Vec<&str> = values.into_iter().map(|v| if v.is_empty() { "a new one" } else { v }).collect();
    if values.is_empty() { format!("no {key} at all") } else { some(&values, LISTED) }
}

fn spread(rule: &Spread, sites: &[Site]) -> String {
    if sites.iter().all(|site| !site.contains_key(&rule.key)) {
        return format!("is spread over {}, a label that no machine of this NodePool has", rule.key);
    }
    let counts: BTreeMap<&str, i64> = rule.counts.iter().map(|(value, n)| (value.as_ref(), *n)).collect();
    let counts: Vec<String> = counts.iter().map(|(value, n)| format!("{value} {n}")).collect();
    format!(
        "its spread over {} allows {} more than the least ({}); matching pods: {}; it could stand in {}",
        rule.key,
        rule.max_skew,
        rule.minimum,
        some(&counts, LISTED),
        offered(&rule.key, sites)
    )
}
