//! Messages for topology rules: where other pods run, and the domains available to the pod.

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::{Location, Spread, TopologyConflict};
use crate::wording::{closest_match, selector, some};
use model::labels::HOSTNAME;
use model::{PodAffinityTerm, Text};

use super::{Describer, LISTED};

impl Describer<'_, '_> {
    /// Describes a topology conflict: where other pods run, and the domains available to the pod.
    pub(super) fn topology(&self, conflict: TopologyConflict, locations: &[Location]) -> String {
        // Each message has three parts: the rule, the domains of other pods, and the domains that
        // the pod could use.
        match conflict {
            TopologyConflict::Spread(at) => self.spread(&self.topology.spread[at], locations),
            TopologyConflict::Affinity(at) => {
                let rule = &self.topology.affinity[at];
                let term = &self.pod_reqs.shape.pod_affinity[rule.index];
                let there: Vec<String> = rule.domains.iter().map(|(value, (n, _))| format!("{value} ({n})")).collect();
                let offered = offered(&rule.key, locations);
                let there = if there.is_empty() {
                    "no such pod has a place".to_owned()
                } else {
                    format!("such pods are in {}", some(&there, LISTED))
                };
                format!("needs to share {} with {}; {there}, and it could run in {offered}", rule.key, pods_of(term))
            }
            TopologyConflict::AntiAffinity(at) => {
                let rule = &self.topology.anti[at];
                let term = &self.pod_reqs.shape.pod_anti_affinity[rule.index];
                let there: Vec<String> =
                    rule.domains.iter().map(|(value, (n, one))| format!("{value} ({n}, such as {one})")).collect();
                let offered = offered(&rule.key, locations);
                format!(
                    "must not share {} with {}; they are in {}, and it could run in {offered}",
                    rule.key,
                    pods_of(term),
                    some(&there, LISTED)
                )
            }
            TopologyConflict::OtherPod => self.conflicting_pods(locations),
        }
    }

    fn spread(&self, rule: &Spread, locations: &[Location]) -> String {
        if locations.iter().any(|location| location.contains_key(&rule.key)) {
            return spread(rule, locations);
        }
        let hostname = [Text::from(HOSTNAME)];
        let known = self.snapshot.input.policy.well_known_labels.iter().chain(&hostname);
        let hint = closest_match(&rule.key, known).map_or(String::new(), |key| format!("; did you mean {key}?"));
        format!("is spread over {}, a label that no machine of this NodePool has{hint}", rule.key)
    }

    fn conflicting_pods(&self, locations: &[Location]) -> String {
        let hits = locations.iter().flatten().filter_map(|(key, value)| {
            let pod = self.topology.conflicting_pods.get(&(key.clone(), value.clone()))?;
            Some(format!("{pod} in {key}={value}"))
        });
        let hits: Vec<String> = hits.collect::<BTreeSet<String>>().into_iter().collect();
        format!("other pods refuse it by their own anti-affinity: {}", some(&hits, LISTED))
    }
}

fn pods_of(term: &PodAffinityTerm) -> String {
    let pods = format!("pods with {}", selector(term.selector.as_ref()));
    if term.namespaces.is_empty() { pods } else { format!("{pods} in namespace {}", term.namespaces.join(", ")) }
}

/// The values of `key` among `locations`.
fn offered(key: &str, locations: &[Location]) -> String {
    let values: BTreeSet<&str> = locations.iter().filter_map(|location| location.get(key)).map(AsRef::as_ref).collect();
    let values: Vec<&str> = values.into_iter().map(|v| if v.is_empty() { "a new one" } else { v }).collect();
    if values.is_empty() { format!("no {key} at all") } else { some(&values, LISTED) }
}

fn spread(rule: &Spread, locations: &[Location]) -> String {
    let counts: BTreeMap<&str, i64> = rule.counts.iter().map(|(value, n)| (value.as_ref(), *n)).collect();
    let counts: Vec<String> = counts.iter().map(|(value, n)| format!("{value} {n}")).collect();
    format!(
        "its spread over {} allows {} more than the least ({}); matching pods: {}; it could run in {}",
        rule.key,
        rule.max_skew,
        rule.minimum,
        some(&counts, LISTED),
        offered(&rule.key, locations)
    )
}
