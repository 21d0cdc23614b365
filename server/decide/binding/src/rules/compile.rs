//! The rules of one class: its own and those of other pods.

use super::{ClassRules, Compiler};
use crate::classes::PodClass;
use crate::hosts::{Demand, ResourceIndex};
use crate::node_classes::mentions_name;
use crate::steps::Steps;
use model::requirements::label_satisfies;
use model::{Effect, Node, NodeSelectorTerm};
use verifier::kernel::{RequiredNodeAffinity, conflicts_on_node};

impl<'a> Compiler<'a, '_> {
    /// The rules of the class `number`; `None` when the steps are used up.
    pub(crate) fn compile(
        &mut self,
        number: u32,
        index: &ResourceIndex<'_>,
        steps: &mut Steps,
    ) -> Option<ClassRules<'a>> {
        let nodes: &'a [Node] = &self.input.nodes;
        let class = self.classes.list[number as usize];
        let shape = class.shape;
        let by_name = mentions_name(shape, class.volumes);
        steps.take(4 * self.node_classes.steps_of_map(by_name))?;
        let node_affinity = RequiredNodeAffinity::of(shape);
        let allows = |node: &Node| conflicts_on_node(node, shape, &node_affinity, class.volumes).is_empty();
        let mut rules = ClassRules {
            class,
            demand: Demand::of(class, index),
            needs_ports_or_attachments: !shape.host_ports.is_empty()
                || class.volumes.is_some_and(|volumes| !volumes.attachments.is_empty()),
            allowed: self.node_classes.flags(nodes, by_name, allows),
            preference: if self.scores { self.preferences(&class, by_name) } else { Vec::new() },
            soft_taints: if self.scores { self.soft_taints(&class) } else { Vec::new() },
            hard_spread: Vec::new(),
            soft_spread: Vec::new(),
            needs_every_key: !shape.spread.is_empty(),
            affinity: Vec::new(),
            matches_own_affinity: false,
            anti_affinity: Vec::new(),
            weighted: Vec::new(),
        };
        self.add_spread(number, &node_affinity, &mut rules, steps)?;
        self.add_terms_of_class(&mut rules, steps)?;
        self.add_terms_of_others(&mut rules, steps)?;
        Some(rules)
    }

    /// The raw NodeAffinity score of each node.
    fn preferences(&self, class: &PodClass<'_>, by_name: bool) -> Vec<i64> {
        let terms = &class.shape.preferred_node_affinity;
        let holds = |term: &NodeSelectorTerm, node: &Node| {
            !(term.expressions.is_empty() && term.names.is_empty())
                && term.expressions.iter().all(|requirement| label_satisfies(&node.labels, requirement))
                && term.names.iter().all(|requirement| requirement.has(&node.name))
        };
        let score = |node: &Node| {
            terms.iter().filter(|weighted| holds(&weighted.term, node)).map(|weighted| i64::from(weighted.weight)).sum()
        };
        if terms.is_empty() { Vec::new() } else { self.node_classes.map(&self.input.nodes, by_name, score) }
    }

    /// The raw TaintToleration score of each node.
    fn soft_taints(&self, class: &PodClass<'_>) -> Vec<i64> {
        let tolerations = &class.shape.tolerations;
        let untolerated = |node: &Node| {
            let soft = node.taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
            let count = soft.filter(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint))).count();
            i64::try_from(count).unwrap_or(i64::MAX)
        };
        let counts = self.node_classes.map(&self.input.nodes, false, untolerated);
        if counts.iter().all(|count| *count == 0) { Vec::new() } else { counts }
    }
}
