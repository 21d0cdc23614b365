//! Counts of pods by domain, and the domains that a rule allows to the next pod.

use std::collections::{BTreeMap, BTreeSet};

use model::labels::HOSTNAME;
use model::{Requirement, Requirements, Text};

use super::rule::{Rule, RuleKind};

/// The pods that a rule counts, by domain.
pub(crate) struct Group {
    pub(crate) rule: Rule,
    /// Whether pods of each kind are counted.
    pub(crate) selected: Vec<bool>,
    /// Number of pods in each known domain.
    counts: BTreeMap<Text, i32>,
    populated: usize,
}

impl Group {
    pub(crate) fn new(rule: Rule, domains: BTreeSet<Text>, selected: Vec<bool>) -> Self {
        Self { rule, selected, counts: domains.into_iter().map(|domain| (domain, 0)).collect(), populated: 0 }
    }

    /// Adds a domain without pods, unless it is known.
    pub(crate) fn make_known(&mut self, domain: &Text) {
        self.counts.entry(domain.clone()).or_insert(0);
    }

    pub(crate) fn record(&mut self, domain: &Text) {
        let count = self.counts.entry(domain.clone()).or_insert(0);
        *count += 1;
        self.populated += usize::from(*count == 1);
    }

    /// Counts a pod on a node with `requirements`: in its only domain, or with `in_all` in every domain
    /// that it may have.
    pub(crate) fn record_placed(&mut self, requirements: &Requirements, in_all: bool) {
        let domains = requirements.get(&self.rule.topology_key).and_then(Requirement::finite_values);
        let Some(domains) = domains.filter(|domains| in_all || domains.len() == 1) else { return };
        for domain in domains {
            self.record(domain);
        }
    }

    fn count(&self, domain: &str) -> i32 {
        self.counts.get(domain).copied().unwrap_or(0)
    }

    /// Whether a pod of `kind` may be on `host`; only for rules over hostnames. For affinity, "maybe".
    pub(crate) fn allows_host(&self, kind: usize, host: &Text) -> bool {
        match self.rule.kind {
            RuleKind::Spread { max_skew, .. } => self.count(host) + i32::from(self.selected[kind]) <= max_skew,
            RuleKind::AntiAffinity => self.count(host) == 0,
            RuleKind::Affinity => true,
        }
    }

    /// The domains that the rule allows to a pod of `kind` whose own requirement is `pod`, on a node
    /// with the requirement `node`.
    pub(crate) fn allowed(&self, kind: usize, pod: &Requirement, node: &Requirement) -> BTreeSet<Text> {
        if self.rule.topology_key.as_ref() == HOSTNAME
            && let Some(host) = only_value(node)
        {
            return self.allowed_host(kind, pod, host);
        }
        match self.rule.kind {
            RuleKind::Spread { max_skew, min_domains, .. } => {
                let least = self.least_count(pod, min_domains);
                self.least_populated(self.selected[kind], max_skew, least, node).into_iter().collect()
            }
            RuleKind::Affinity => self.domains_with_pods(kind, pod, node),
            RuleKind::AntiAffinity => self.known(pod, node).filter(|(_, count)| **count == 0).map(name).collect(),
        }
    }

    fn known<'g>(&'g self, pod: &'g Requirement, node: &'g Requirement) -> impl Iterator<Item = (&'g Text, &'g i32)> {
        self.counts.iter().filter(|(domain, _)| pod.has(domain) && node.has(domain))
    }

    /// A node has one hostname, and more nodes can always be launched: the least count is zero.
    fn allowed_host(&self, kind: usize, pod: &Requirement, host: &Text) -> BTreeSet<Text> {
        let allowed = match self.rule.kind {
            RuleKind::Affinity => pod.has(host) && (self.count(host) > 0 || self.begins(kind, pod)),
            _ => self.allows_host(kind, host),
        };
        allowed.then(|| host.clone()).into_iter().collect()
    }

    /// The least number of pods in a domain that the pod allows; zero while there are fewer domains
    /// than `minDomains`.
    fn least_count(&self, pod: &Requirement, min_domains: Option<i32>) -> i32 {
        if self.rule.topology_key.as_ref() == HOSTNAME {
            return 0;
        }
        let domains: Vec<i32> = self.counts.iter().filter(|(domain, _)| pod.has(domain)).map(|(_, n)| *n).collect();
        let too_few = min_domains.is_some_and(|least| domains.len() < usize::try_from(least).unwrap_or(0));
        if too_few { 0 } else { domains.into_iter().min().unwrap_or(i32::MAX) }
    }

    /// The domain of the node with the fewest pods that the skew allows; of equal ones the first by
    /// name, where Karpenter takes any.
    fn least_populated(&self, counts_itself: bool, max_skew: i32, least: i32, node: &Requirement) -> Option<Text> {
        let after = |count: i32| count + i32::from(counts_itself);
        let allowed = self.counts.iter().filter(|(domain, count)| {
            node.has(domain) && i64::from(after(**count)) - i64::from(least) <= i64::from(max_skew)
        });
        allowed.min_by_key(|(_, count)| **count).map(name)
    }

    fn domains_with_pods(&self, kind: usize, pod: &Requirement, node: &Requirement) -> BTreeSet<Text> {
        let with_pods: BTreeSet<Text> = self.known(pod, node).filter(|(_, count)| **count > 0).map(name).collect();
        if !with_pods.is_empty() || !self.begins(kind, pod) {
            return with_pods;
        }
        // Karpenter takes any domain of pod and node, and any of the pod (L45); here both are the first.
        self.known(pod, node).next().map(name).into_iter().collect()
    }

    /// Whether the pod may be the first of its group: it matches its own term, and no domain that it
    /// allows has pods.
    fn begins(&self, kind: usize, pod: &Requirement) -> bool {
        let any_compatible = || self.counts.iter().any(|(domain, count)| *count > 0 && pod.has(domain));
        self.selected[kind] && (self.populated == 0 || !any_compatible())
    }
}

fn name((domain, _): (&Text, &i32)) -> Text {
    domain.clone()
}

fn only_value(requirement: &Requirement) -> Option<&Text> {
    requirement.finite_values().filter(|values| values.len() == 1).and_then(|values| values.first())
}
