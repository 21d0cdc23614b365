//! The constraints and preferences of a class of pods, compiled once against all nodes.

mod between_pods;
mod compile;
mod spread;

use std::rc::Rc;

use model::input::PlanningInput;
use model::labels::HOSTNAME;
use model::{LabelSelector, SelectorOperator, SelectorTerm};
use rustc_hash::FxHashMap;

use crate::classes::{Classes, PodClass};
use crate::hosts::Demand;
use crate::node_classes::NodeClasses;
use crate::scores::HARD_POD_AFFINITY;
use crate::steps::Steps;
use crate::tallies::{Domains, Tallies};

#[derive(Debug)]
pub(crate) struct HardSpread {
    pub(crate) tally: usize,
    pub(crate) max_skew: i64,
    pub(crate) min_domains: Option<i32>,
    /// 1 if the pod matches its own selector, otherwise 0.
    pub(crate) own: i64,
}

#[derive(Debug)]
pub(crate) struct SoftSpread {
    pub(crate) tally: usize,
    pub(crate) max_skew: i32,
    pub(crate) is_by_hostname: bool,
}

/// The rules of one class. Values by node are indexed by the position of the node in the input.
#[derive(Debug)]
pub(crate) struct ClassRules<'a> {
    pub(crate) class: PodClass<'a>,
    pub(crate) demand: Demand<'a>,
    /// Whether a node may lack the ports or the attachments for a pod.
    pub(crate) needs_ports_or_attachments: bool,
    /// Nodes that taints, node affinity and volumes allow.
    pub(crate) allowed: Rc<[bool]>,
    /// Weights of the preferred node affinity terms that a node matches; empty without terms.
    pub(crate) preference: Vec<i64>,
    /// `PreferNoSchedule` taints that are not tolerated; empty if no node has one.
    pub(crate) soft_taints: Vec<i64>,
    pub(crate) hard_spread: Vec<HardSpread>,
    pub(crate) soft_spread: Vec<SoftSpread>,
    /// Whether a node needs all keys of the soft constraints for a score.
    pub(crate) needs_every_key: bool,
    /// One tally for each key of the required affinity terms: pods that match all of them.
    pub(crate) affinity: Vec<usize>,
    /// Whether the pod matches its own affinity terms, so that it may be the first.
    pub(crate) matches_own_affinity: bool,
    /// Pods that exclude this one from their domain, or that it excludes.
    pub(crate) anti_affinity: Vec<usize>,
    /// Preferred terms in both directions, with their weights.
    pub(crate) weighted: Vec<(usize, i64)>,
}

impl ClassRules<'_> {
    /// Whether a pod that is bound can make room for another one of this class.
    pub(crate) fn may_gain_from_bindings(&self) -> bool {
        !self.hard_spread.is_empty() || !self.affinity.is_empty()
    }
}

#[derive(Debug)]
pub(crate) struct Compiler<'a, 'b> {
    pub(crate) input: &'a PlanningInput,
    node_classes: NodeClasses,
    pub(crate) classes: &'b Classes<'a>,
    pub(crate) domains: &'b mut Domains<'a>,
    pub(crate) tallies: &'b mut Tallies,
    by_workload: Vec<Vec<u32>>,
    /// Whether nodes are scored. Without scores, preferences are left out except the soft spread that pods state.
    scores: bool,
    /// The classes whose pods have terms about others.
    with_terms: Rc<[u32]>,
    /// The classes that have each label, ascending.
    by_label: FxHashMap<(&'a str, &'a str), Vec<u32>>,
}

impl<'a, 'b> Compiler<'a, 'b> {
    pub(crate) fn new(
        input: &'a PlanningInput,
        classes: &'b Classes<'a>,
        domains: &'b mut Domains<'a>,
        tallies: &'b mut Tallies,
        scores: bool,
    ) -> Self {
        let mut by_label: FxHashMap<(&'a str, &'a str), Vec<u32>> = FxHashMap::default();
        for (number, class) in (0..).zip(&classes.list) {
            for (key, value) in class.labels {
                by_label.entry((key, value)).or_default().push(number);
            }
        }
        Self {
            by_label,
            by_workload: if scores { classes.by_workload() } else { Vec::new() },
            scores,
            with_terms: (0..).zip(&classes.list).filter(|(_, class)| has_terms(class)).map(|(at, _)| at).collect(),
            node_classes: NodeClasses::of(&input.nodes),
            input,
            classes,
            domains,
            tallies,
        }
    }

    /// The classes that `selects` selects, which all match `selector`.
    fn select(
        &self,
        selector: Option<&LabelSelector>,
        selects: impl Fn(&PodClass<'a>) -> bool,
        steps: &mut Steps,
    ) -> Option<Vec<u32>> {
        steps.take(self.classes.list.len())?;
        let selected = |number: &u32| selects(&self.classes.list[*number as usize]);
        let wanted = selector.and_then(|selector| {
            let in_one = |term: &&SelectorTerm| term.operator == SelectorOperator::In && term.values.len() == 1;
            let term = selector.terms.iter().find(in_one)?;
            Some((term.key.as_ref(), term.values.first()?.as_ref()))
        });
        if let Some(wanted) = wanted {
            let with_label = self.by_label.get(&wanted).map(Vec::as_slice).unwrap_or_default();
            return Some(with_label.iter().copied().filter(selected).collect());
        }
        Some((0..).take(self.classes.list.len()).filter(selected).collect())
    }
}

fn has_terms(class: &PodClass<'_>) -> bool {
    let shape = class.shape;
    !shape.pod_affinity.is_empty()
        || !shape.pod_anti_affinity.is_empty()
        || !shape.preferred_pod_affinity.is_empty()
        || !shape.preferred_pod_anti_affinity.is_empty()
}

/// Whether a key makes every node its own domain.
fn is_hostname(key: &str) -> bool {
    key == HOSTNAME
}
