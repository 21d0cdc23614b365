//! Topology spread: the constraints of a pod, or those of kube-scheduler's default profile.

use model::labels::{HOSTNAME, ZONE};
use model::taints::first_untolerated;
use model::{Node, SpreadConstraint, Taint};
use verifier::kernel::{PodSelector, RequiredNodeAffinity};

use super::{ClassRules, Compiler, HardSpread, SoftSpread, is_hostname};
use crate::classes::PodClass;
use crate::node_classes::mentions_name;
use crate::steps::Steps;
use crate::tallies::DrainedNodes;

/// The constraints of pods without constraints of their own, all of them soft: key and maximum skew
/// (`podtopologyspread.systemDefaultConstraints`).
const DEFAULT_CONSTRAINTS: [(&str, i32); 2] = [(HOSTNAME, 3), (ZONE, 5)];

impl<'a> Compiler<'a, '_> {
    pub(super) fn add_spread(
        &mut self,
        number: u32,
        node_affinity: &RequiredNodeAffinity<'_>,
        rules: &mut ClassRules<'a>,
        steps: &mut Steps,
    ) -> Option<()> {
        let shape = rules.class.shape;
        if shape.spread.is_empty() {
            self.add_default_spread(number, node_affinity, rules);
            return Some(());
        }
        for constraint in &shape.spread {
            self.add_constraint(constraint, node_affinity, rules, steps)?;
        }
        Some(())
    }

    fn add_default_spread(
        &mut self,
        number: u32,
        node_affinity: &RequiredNodeAffinity<'_>,
        rules: &mut ClassRules<'a>,
    ) {
        if !rules.class.has_spread_controller || !self.scores {
            return;
        }
        let nodes: &'a [Node] = &self.input.nodes;
        let by_name = mentions_name(rules.class.shape, None);
        let counted = self.node_classes.flags_unless_all(nodes, by_name, |node| node_affinity.matches_node(node));
        for (key, max_skew) in DEFAULT_CONSTRAINTS {
            let key_number = self.domains.key(key, nodes);
            let classes = self.by_workload[number as usize].clone();
            let counted = (counted.clone(), DrainedNodes::Count);
            let tally = self.tallies.define(self.domains, classes, key_number, counted);
            rules.soft_spread.push(SoftSpread { tally, max_skew, is_by_hostname: is_hostname(key) });
        }
    }

    fn add_constraint(
        &mut self,
        constraint: &'a SpreadConstraint,
        node_affinity: &RequiredNodeAffinity<'_>,
        rules: &mut ClassRules<'a>,
        steps: &mut Steps,
    ) -> Option<()> {
        let (input, class) = (self.input, rules.class);
        let selector = PodSelector::of_spread(class.namespace, constraint);
        let selects = |other: &PodClass<'_>| selector.selects(input, other.namespace, other.labels);
        let classes = self.select(constraint.selector.as_ref(), selects, steps)?;
        let own = i64::from(selector.selects(input, class.namespace, class.labels));
        let alike = class.shape.spread.iter().filter(|other| other.hard == constraint.hard);
        let keys: Vec<&str> = alike.map(|other| other.topology_key.as_ref()).collect();
        let counts = |node: &Node| {
            keys.iter().all(|key| node.labels.contains_key(*key))
                && (!constraint.honor_node_affinity || node_affinity.matches_node(node))
                && (!constraint.honor_node_taints
                    || first_untolerated(&node.taints, &class.shape.tolerations).is_none())
        };
        let by_name = mentions_name(class.shape, None);
        steps.take(self.node_classes.steps_of_map(by_name))?;
        let counted = self.node_classes.flags_unless_all(&input.nodes, by_name, counts);
        let key = self.domains.key(&constraint.topology_key, &input.nodes);
        let is_excluded =
            constraint.honor_node_taints && first_untolerated(&[Taint::of_drain()], &class.shape.tolerations).is_some();
        let drained = if is_excluded { DrainedNodes::Excluded } else { DrainedNodes::Count };
        let tally = self.tallies.define(self.domains, classes, key, (counted, drained));
        if constraint.hard {
            let (max_skew, min_domains) = (i64::from(constraint.max_skew), constraint.min_domains);
            rules.hard_spread.push(HardSpread { tally, max_skew, min_domains, own });
        } else {
            let is_by_hostname = is_hostname(&constraint.topology_key);
            rules.soft_spread.push(SoftSpread { tally, max_skew: constraint.max_skew, is_by_hostname });
        }
        Some(())
    }
}
