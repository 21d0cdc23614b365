//! Pods among each other: topology spread, pod affinity, pod anti-affinity, judged along the plan's order.
//!
//! Pods that are on nodes already count from the start; then each pod of the order is judged against all that stand at
//! its turn, and joins them. Every distinct question ("how many pods that these terms select, per domain of this key, on
//! nodes that this filter admits") is one [`tally::Tally`]; a pod touches only the tallies that its class owns or that
//! select it.

mod domains;
mod filter;
mod rulebook;
mod tally;

use std::rc::Rc;

use rustc_hash::FxHashMap;

use domains::{Domains, Place};
use rulebook::{Question, Rulebook, Spread};
use tally::{Ground, Tally};

use super::class::Classes;
use super::launch::Launches;
use super::roster::Roster;
use super::{Findings, Rule};
use crate::input::PlanningInput;
use crate::plan::Plan;

pub(super) fn check(
    input: &PlanningInput,
    plan: &Plan,
    roster: &Roster<'_>,
    launches: &Launches<'_>,
    found: &mut Findings<'_>,
) {
    let (mut classes, class_of) = Classes::of_pods(input);
    let standing = standing(input, &mut classes);
    let planned = class_of.iter().copied().max().map_or(0, |last| last + 1);
    let book = Rulebook::write(input, &classes, planned);
    if book.questions.is_empty() {
        return;
    }
    let domains = Domains::survey(input, plan, launches, &book.keys);
    let admitted = filter::admissions(input, plan, launches, &book.filters);
    let mut grounds: FxHashMap<(u32, u32), Rc<Ground>> = FxHashMap::default();
    let mut tally = |question: &Question| {
        let Some(filter) = question.filter else { return Tally::new(question.key, None, None) };
        let admitted = &admitted[filter as usize];
        let ground = grounds.entry((question.key, filter)).or_insert_with(|| {
            let mut known: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
            let looked_at = |host: u32| {
                let Some(number) = launches.number_of_host(input.nodes.len(), host) else { return Vec::new() };
                let domains_of = || {
                    let (launch, key) = (&launches.list[number as usize], domains.key(question.key));
                    let values = filter::values_looked_at(input, &book.filters[filter as usize], launch, key);
                    values.into_iter().filter_map(|value| domains.number(question.key, value)).collect()
                };
                known.entry(number).or_insert_with(domains_of).clone()
            };
            Rc::new(Ground::of(&domains, question.key, admitted, looked_at))
        });
        Tally::new(question.key, Some(admitted), Some(Rc::clone(ground)))
    };
    let tallies = book.questions.iter().map(&mut tally).collect();
    let mut court = Court { tallies, book: &book, domains: &domains, roster };
    for (class, host) in standing {
        court.join(class, host);
    }
    for pod in &roster.order {
        let (class, host) = (class_of[*pod as usize], roster.host_of[*pod as usize]);
        let known = (host as usize) < input.nodes.len() || launches.number_of_host(input.nodes.len(), host).is_some();
        if known {
            court.judge(*pod, class, host, found);
        }
        court.join(class, host);
    }
}

/// For each pod to place, whether some pod's hard rule over domains wider than nodes counts it.
pub(super) fn counted_beyond_nodes(input: &PlanningInput) -> Vec<bool> {
    let (mut classes, class_of) = Classes::of_pods(input);
    let planned = class_of.iter().copied().max().map_or(0, |last| last + 1);
    drop(standing(input, &mut classes));
    let book = Rulebook::write(input, &classes, planned);
    let wide = |question: &u32| {
        let key = book.questions[*question as usize].key;
        book.keys[key as usize] != crate::model::labels::HOSTNAME
    };
    class_of.iter().map(|class| book.selecting[*class as usize].iter().any(wide)).collect()
}

/// Class and host of each pod that counts from the start: neither terminating nor about to leave.
fn standing<'a>(input: &'a PlanningInput, classes: &mut Classes<'a>) -> Vec<(u32, u32)> {
    let hosted = (0_u32..).zip(&input.nodes).flat_map(|(host, node)| node.pods.iter().map(move |pod| (host, pod)));
    let counted = hosted.filter(|(_, pod)| !pod.terminating && !pod.leaving);
    counted.map(|(host, pod)| (classes.id(&pod.namespace, pod.shape, pod.labels), host)).collect()
}

/// The state of judgement: who stands where so far.
struct Court<'a, 'b> {
    tallies: Vec<Tally<'b>>,
    book: &'b Rulebook<'a>,
    domains: &'b Domains<'a>,
    roster: &'b Roster<'a>,
}

impl Court<'_, '_> {
    /// Counts a pod of `class` on `host` wherever it is selected or bars others.
    fn join(&mut self, class: u32, host: u32) {
        for tally in &self.book.selecting[class as usize] {
            let tally = &mut self.tallies[*tally as usize];
            if tally.admits(host) {
                tally.count(self.domains.place(tally.key(), host));
            }
        }
        for tally in &self.book.rules[class as usize].keeps_away {
            let tally = &mut self.tallies[*tally as usize];
            tally.bar(self.domains.place(tally.key(), host));
        }
    }

    fn judge(&self, pod: u32, class: u32, host: u32, found: &mut Findings<'_>) {
        let rules = &self.book.rules[class as usize];
        let name = self.roster.name(host);
        for spread in &rules.spreads {
            if let Err((rule, what)) = self.spread(spread, host) {
                found.pod(rule, pod, Some(name), &what);
            }
        }
        if !rules.near.is_empty()
            && let Err((rule, what)) = self.near(&rules.near, rules.near_itself, host)
        {
            found.pod(rule, pod, Some(name), &what);
        }
        for tally in &rules.keeps_away {
            if let Err((rule, what)) = self.apart(*tally, host) {
                found.pod(rule, pod, Some(name), &what);
            }
        }
        for tally in &self.book.selecting[class as usize] {
            let tally = &self.tallies[*tally as usize];
            if tally.bars(self.domains.place(tally.key(), host)) {
                let what = format!("is kept away by a pod there, over {}", self.domains.key(tally.key()));
                found.pod(Rule::PodAntiAffinity, pod, Some(name), &what);
            }
        }
    }

    /// The one domain of a host, for pods with a hard constraint over that key.
    fn settled(&self, key: u32, host: u32, rule: Rule) -> Result<u32, (Rule, String)> {
        match self.domains.place(key, host) {
            Place::One(domain) => Ok(domain),
            Place::Nowhere => Err((rule, format!("needs a node with the label {}", self.domains.key(key)))),
            Place::OneOf(_) => {
                let what = format!("depends on {}, whose value is still open there", self.domains.key(key));
                Err((Rule::OpenDomain, what))
            }
        }
    }

    /// kube-scheduler: matching pods in the domain, and the pod itself, exceed the global minimum by at most `maxSkew`.
    fn spread(&self, spread: &Spread, host: u32) -> Result<(), (Rule, String)> {
        let tally = &self.tallies[spread.tally as usize];
        let domain = self.settled(tally.key(), host, Rule::TopologySpread)?;
        let (here, least) = (tally.at_most(domain), tally.least(spread.min_domains));
        let skew = here + i64::from(spread.counts_itself) - least;
        if skew <= i64::from(spread.max_skew) {
            return Ok(());
        }
        let key = self.domains.key(tally.key());
        let what = format!("makes the skew over {key} {skew} (least {least}); {} is allowed", spread.max_skew);
        Err((Rule::TopologySpread, what))
    }

    /// kube-scheduler: pods that match all terms stand in the node's domain of every term; the first pod of a group that
    /// selects itself may stand anywhere.
    fn near(&self, terms: &[u32], itself: bool, host: u32) -> Result<(), (Rule, String)> {
        let mut missing = None;
        for tally in terms {
            let tally = &self.tallies[*tally as usize];
            let domain = self.settled(tally.key(), host, Rule::PodAffinity)?;
            if tally.at_least(domain) == 0 {
                missing = Some(self.domains.key(tally.key()));
            }
        }
        let nobody = || terms.iter().all(|tally| self.tallies[*tally as usize].is_empty());
        match missing {
            Some(key) if !(itself && nobody()) => {
                Err((Rule::PodAffinity, format!("wants to be near pods that are not in its domain of {key}")))
            }
            _ => Ok(()),
        }
    }

    fn apart(&self, tally: u32, host: u32) -> Result<(), (Rule, String)> {
        let tally = &self.tallies[tally as usize];
        match self.settled(tally.key(), host, Rule::PodAntiAffinity) {
            Ok(domain) if tally.at_most(domain) > 0 => {
                let key = self.domains.key(tally.key());
                Err((Rule::PodAntiAffinity, format!("keeps away from pods that stand in its domain of {key}")))
            }
            // A node without the label is in no domain, so nobody is too near.
            Ok(_) | Err((Rule::PodAntiAffinity, _)) => Ok(()),
            Err(open) => Err(open),
        }
    }
}
