//! All domains that nodes of the pools may have.

use std::collections::{BTreeMap, BTreeSet};

use model::input::PlanningInput;
use model::{PodShape, Requirement, Requirements, Text};

use super::rule::{Rule, RuleKind};
use crate::supply::type_requirements;

/// The values of every label that new nodes may have, each with the pools that offer it.
pub(crate) struct Universe<'i> {
    input: &'i PlanningInput,
    domains: BTreeMap<Text, BTreeSet<(Text, u32)>>,
}

impl<'i> Universe<'i> {
    /// The domains of `pools` with their instance types.
    pub(crate) fn of(input: &'i PlanningInput, pools: &[u32]) -> Self {
        let mut universe = Self { input, domains: BTreeMap::new() };
        for index in pools {
            let pool = &input.pools[*index as usize];
            universe.add(*index, &pool.requirements);
            for machine in &pool.catalogue.types {
                let mut requirements = type_requirements(machine);
                for requirement in pool.requirements.iter() {
                    requirements.add(requirement.clone());
                }
                universe.add(*index, &requirements);
            }
        }
        universe
    }

    fn add(&mut self, pool: u32, requirements: &Requirements) {
        for requirement in requirements.iter() {
            let Some(values) = Requirement::finite_values(requirement).filter(|values| !values.is_empty()) else {
                continue;
            };
            let known = self.domains.entry(requirement.key().clone()).or_default();
            known.extend(values.iter().map(|value| (value.clone(), pool)));
        }
    }

    /// The domains of `rule`. Those of pools whose taints the pod does not tolerate are left out, for
    /// spread only if it honours taints.
    pub(crate) fn domains(&self, rule: &Rule, shape: &PodShape) -> BTreeSet<Text> {
        let ignores_taints = matches!(rule.kind, RuleKind::Spread { honors_taints: false, .. });
        let tolerates = |pool: u32| {
            let taints = &self.input.pools[pool as usize].taints;
            taints.iter().all(|taint| shape.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
        };
        let known = self.domains.get(&rule.topology_key).into_iter().flatten();
        known.filter(|(_, pool)| ignores_taints || tolerates(*pool)).map(|(domain, _)| domain.clone()).collect()
    }
}
