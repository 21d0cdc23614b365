//! Pod affinity and anti-affinity, required and preferred, of a pod and towards it.

use std::collections::BTreeMap;

use model::{PodAffinityTerm, Weighted};
use verifier::kernel::PodSelector;

use super::{ClassRules, Compiler, HARD_POD_AFFINITY};
use crate::classes::PodClass;
use crate::steps::Steps;
use crate::tallies::DrainedNodes;

impl<'a> Compiler<'a, '_> {
    /// The terms of the pod itself.
    pub(super) fn add_terms_of_class(&mut self, rules: &mut ClassRules<'a>, steps: &mut Steps) -> Option<()> {
        let (class, shape) = (rules.class, rules.class.shape);
        self.add_required_affinity(rules, steps)?;
        for term in &shape.pod_anti_affinity {
            rules.anti_affinity.push(self.tally_of_term(&class, term, steps)?);
        }
        if !self.scores {
            return Some(());
        }
        let signed = [(&shape.preferred_pod_affinity, 1), (&shape.preferred_pod_anti_affinity, -1)];
        for (terms, sign) in signed {
            for Weighted { weight, term } in terms {
                rules.weighted.push((self.tally_of_term(&class, term, steps)?, sign * i64::from(*weight)));
            }
        }
        Some(())
    }

    /// Required affinity: the same pods match all terms.
    fn add_required_affinity(&mut self, rules: &mut ClassRules<'a>, steps: &mut Steps) -> Option<()> {
        let (input, class) = (self.input, rules.class);
        let terms = &class.shape.pod_affinity;
        if terms.is_empty() {
            return Some(());
        }
        let selectors: Vec<_> = terms.iter().map(|term| PodSelector::of_term(class.namespace, term)).collect();
        let selects = |other: &PodClass<'_>| {
            selectors.iter().all(|selector| selector.selects(input, other.namespace, other.labels))
        };
        let classes = self.select(terms.first().and_then(|term| term.selector.as_ref()), selects, steps)?;
        rules.matches_own_affinity = selects(&class);
        for term in terms {
            let key = self.domains.key(&term.topology_key, &input.nodes);
            rules.affinity.push(self.tallies.define(self.domains, classes.clone(), key, (None, DrainedNodes::Count)));
        }
        Some(())
    }

    fn tally_of_term(&mut self, class: &PodClass<'a>, term: &'a PodAffinityTerm, steps: &mut Steps) -> Option<usize> {
        let input = self.input;
        let selector = PodSelector::of_term(class.namespace, term);
        let selects = |other: &PodClass<'_>| selector.selects(input, other.namespace, other.labels);
        let classes = self.select(term.selector.as_ref(), selects, steps)?;
        let key = self.domains.key(&term.topology_key, &input.nodes);
        Some(self.tallies.define(self.domains, classes, key, (None, DrainedNodes::Count)))
    }

    /// The terms of other pods that select this one. Terms with equal keys and weights share a
    /// tally; the occurrence keeps apart those of one pod.
    pub(super) fn add_terms_of_others(&mut self, rules: &mut ClassRules<'a>, steps: &mut Steps) -> Option<()> {
        let mut excluding: BTreeMap<&'a str, Vec<u32>> = BTreeMap::new();
        let mut weighted: BTreeMap<(&'a str, i64, usize), Vec<u32>> = BTreeMap::new();
        steps.take(self.classes.list.len())?;
        let with_terms = self.with_terms.clone();
        for number in with_terms.iter().copied() {
            let other = &self.classes.list[number as usize];
            let selects = |term: &&'a PodAffinityTerm| {
                let selector = PodSelector::of_term(other.namespace, term);
                selector.selects(self.input, rules.class.namespace, rules.class.labels)
            };
            for term in other.shape.pod_anti_affinity.iter().filter(selects) {
                excluding.entry(&term.topology_key).or_default().push(number);
            }
            if !self.scores {
                continue;
            }
            let mut occurrences: BTreeMap<(&str, i64), usize> = BTreeMap::new();
            for (term, weight) in weighted_terms(other).filter(|(term, _)| selects(term)) {
                let occurrence = occurrences.entry((&term.topology_key, weight)).or_insert(0);
                weighted.entry((&term.topology_key, weight, *occurrence)).or_default().push(number);
                *occurrence += 1;
            }
        }
        for (key, mut classes) in excluding {
            classes.dedup();
            let key = self.domains.key(key, &self.input.nodes);
            rules.anti_affinity.push(self.tallies.define(self.domains, classes, key, (None, DrainedNodes::Count)));
        }
        for ((key, weight, _), classes) in weighted {
            let key = self.domains.key(key, &self.input.nodes);
            rules.weighted.push((self.tallies.define(self.domains, classes, key, (None, DrainedNodes::Count)), weight));
        }
        Some(())
    }
}

/// The terms of a bound pod that weigh on others, with their weights.
fn weighted_terms<'a>(class: &PodClass<'a>) -> impl Iterator<Item = (&'a PodAffinityTerm, i64)> {
    let shape = class.shape;
    let required = shape.pod_affinity.iter().map(|term| (term, HARD_POD_AFFINITY));
    let preferred = shape.preferred_pod_affinity.iter().map(|one| (&one.term, i64::from(one.weight)));
    let avoided = shape.preferred_pod_anti_affinity.iter().map(|one| (&one.term, -i64::from(one.weight)));
    required.chain(preferred).chain(avoided)
}
