//! What-if replay: the same input under another policy, other NodePools, or another catalogue.

use std::collections::BTreeMap;

use manifests::{InputError, Source};
use model::input::{MinValuesPolicy, PlanningInput, PreferencePolicy};
use model::labels::REGION;
use model::offering::SharedCatalogue;
use model::{Catalogue, InstanceType, InstanceTypeName, NodePool, NotReady};
use planning_input::Options;

/// Policy settings that replace those of the decision.
#[derive(Debug, Clone, Copy)]
pub struct PolicyOverride {
    /// Handling of preferences.
    pub preferences: PreferencePolicy,
    /// Handling of `minValues` that cannot be met.
    pub min_values: MinValuesPolicy,
}

/// Changes to apply to the input.
#[derive(Debug, Clone, Default)]
pub struct WhatIf {
    /// NodePool manifests; they replace those of the same name, others are added.
    pub manifests: Vec<Source>,
    /// Policy settings.
    pub settings: Option<PolicyOverride>,
    /// Instance types and prices, in the format of `plan --catalogue`.
    pub catalogue: Option<Source>,
}

impl WhatIf {
    /// Applies the changes to `input`.
    ///
    /// # Errors
    /// Errors of the manifests or the catalogue.
    pub fn apply(&self, input: &mut PlanningInput) -> Result<(), Vec<InputError>> {
        let region = region(input);
        if let Some(settings) = self.settings {
            input.policy.preferences = settings.preferences;
            input.policy.min_values = settings.min_values;
        }
        if let Some(catalogue) = &self.catalogue {
            replace_catalogues(input, &machines_of(catalogue, region.clone())?);
        }
        if !self.manifests.is_empty() {
            let catalogue = self.catalogue.clone();
            // Without an entry for the region, the catalogue of the decision is used.
            let options = Options { region, allow_no_zones: true, catalogue, now: input.now, ..Options::default() };
            let read = planning_input::read(&self.manifests, &options)?.input.pools;
            read.into_iter().for_each(|pool| replace(input, pool));
        }
        Ok(())
    }
}

/// Region of the decision, from the labels of its instance types.
fn region(input: &PlanningInput) -> Option<String> {
    let mut kinds = input.pools.iter().flat_map(|pool| &pool.catalogue.types);
    let values = kinds.find_map(|kind| kind.labels.get(REGION)?.finite_values());
    values.and_then(|values| values.first()).map(ToString::to_string)
}

/// A NodePool without restrictions, with a default EC2NodeClass.
const ANYTHING: &str = r#"
{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "anything"}, "spec": {"template": {"spec": {
  "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "plain"},
  "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}}}}
---
{"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "plain"}, "spec": {
  "role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
  "subnetSelectorTerms": [{"tags": {"any": "one"}}], "securityGroupSelectorTerms": [{"tags": {"any": "one"}}]}}
"#;

/// Instance types of `catalogue`, as a default EC2NodeClass would run them.
fn machines_of(catalogue: &Source, region: Option<String>) -> Result<SharedCatalogue, Vec<InputError>> {
    let anything = Source { name: "anything".to_owned(), bytes: ANYTHING.as_bytes().to_vec() };
    let options = Options { region, catalogue: Some(catalogue.clone()), ..Options::default() };
    let read = planning_input::read(&[anything], &options)?.input.pools;
    Ok(read.into_iter().next().map(|pool| pool.catalogue).unwrap_or_default())
}

/// Replaces the catalogue of every pool by `machines`. An instance type of the decision keeps its
/// allocatable resources, which depend on the kubelet settings, and takes the new offerings; a type
/// without offerings is dropped.
fn replace_catalogues(input: &mut PlanningInput, machines: &SharedCatalogue) {
    let mut replaced: Vec<(SharedCatalogue, SharedCatalogue)> = Vec::new();
    for pool in &mut input.pools {
        let known = replaced.iter().find(|(old, _)| SharedCatalogue::ptr_eq(old, &pool.catalogue));
        let new = match known {
            Some((_, new)) => SharedCatalogue::clone(new),
            None => SharedCatalogue::new(merged(&pool.catalogue, machines)),
        };
        replaced.push((SharedCatalogue::clone(&pool.catalogue), SharedCatalogue::clone(&new)));
        pool.catalogue = new;
    }
}

fn merged(known: &Catalogue, machines: &Catalogue) -> Catalogue {
    let known: BTreeMap<&InstanceTypeName, &InstanceType> = known.types.iter().map(|kind| (&kind.name, kind)).collect();
    let types = machines.types.iter().map(|kind| match known.get(&kind.name) {
        Some(same) => InstanceType { offerings: kind.offerings.clone(), ..InstanceType::clone(same) },
        None => kind.clone(),
    });
    Catalogue { types: types.collect(), offering_keys: machines.offering_keys.clone() }
}

/// Replaces the pool of the same name. When the manifests lack its EC2NodeClass, it uses the
/// catalogue of the decision's pools of that class.
fn replace(input: &mut PlanningInput, mut pool: NodePool) {
    let same_class = input.pools.iter().find(|known| known.node_class == pool.node_class);
    if let (Some(NotReady::NodeClass(_)), Some(known)) = (&pool.not_ready, same_class) {
        pool.catalogue = SharedCatalogue::clone(&known.catalogue);
        pool.not_ready = None;
    }
    match input.pools.binary_search_by(|known| known.name.cmp(&pool.name)) {
        Ok(place) => {
            pool.unhealthy = input.pools[place].unhealthy;
            input.pools[place] = pool;
        }
        Err(place) => input.pools.insert(place, pool),
    }
}
