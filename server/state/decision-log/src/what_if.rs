//! What-if replay: the same input under another policy, other NodePools, or another catalogue.

use std::collections::BTreeMap;

use controller::DisruptionRequest;
use controller::disruption::selection::{RemovalCheck, SelectionFacts, SelectionInput};
use manifests::{InputError, Source};
use model::input::{MinValuesPolicy, PlanningInput, PreferencePolicy};
use model::labels::REGION;
use model::offering::SharedCatalogue;
use model::running::{Consolidatable, RunningCluster};
use model::{
    Catalogue, DisruptionPolicy, InstanceType, InstanceTypeName, MicroUsd, Node, NodePool, NotReady, PoolName,
};
use planning_input::{Captured, Options};

/// Policy settings that replace those of the decision.
#[derive(Debug, Clone, Copy)]
pub struct PolicyOverride {
    pub preferences: PreferencePolicy,
    /// Handling of `minValues` that cannot be met.
    pub min_values: MinValuesPolicy,
    /// What a consolidation must save per hour at least.
    pub min_savings: MicroUsd,
    /// What must be saved per hour for each pod that a consolidation moves.
    pub churn_price: MicroUsd,
    /// Feature gate `SpotToSpotConsolidation`.
    pub spot_to_spot: bool,
}

/// Changes to apply to the input.
#[derive(Debug, Clone, Default)]
pub struct WhatIf {
    /// NodePool manifests; they replace those of the same name, others are added.
    pub manifests: Vec<Source>,
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
        self.replace_in(input).map(drop)
    }

    /// Applies the changes to `input` and `request`, of a plan of disruption. Running nodes get the prices of the
    /// other catalogue, where it has their offering, and the disruption settings of the other NodePools.
    ///
    /// # Errors
    /// Errors of the manifests or the catalogue.
    pub fn apply_to_disruption(
        &self,
        input: &mut PlanningInput,
        request: &mut DisruptionRequest,
    ) -> Result<(), Vec<InputError>> {
        let policies = self.replace_in(input)?;
        if let Some(settings) = self.settings {
            request.settings.min_savings = settings.min_savings;
            request.settings.churn_price = settings.churn_price;
            request.settings.spot_to_spot = settings.spot_to_spot;
        }
        if self.catalogue.is_some() {
            reprice(input, &mut request.running);
        }
        policies.into_iter().for_each(|(pool, policy)| replace_policy(input, &mut request.running, pool, policy));
        Ok(())
    }

    /// Applies the disruption settings of the NodePools of the manifests to removals by a method, as far as they are
    /// recorded: budgets, windows, `consolidateAfter` and the jitter of expiry. What a NodeClaim was created with
    /// stays, and no machine is added that the method did not select among.
    ///
    /// # Errors
    /// Errors of the manifests.
    pub fn apply_to_removals(
        &self,
        input: &mut SelectionInput,
        check: &mut RemovalCheck,
    ) -> Result<(), Vec<InputError>> {
        if self.manifests.is_empty() {
            return Ok(());
        }
        // Prices do not matter: any region will do.
        let options = Options { allow_no_zones: true, now: input.now, disrupt: true, ..Options::default() };
        let policies = planning_input::read(&self.manifests, &options)?.running.policies;
        for (pool, policy) in policies {
            for judged in check.input.pools.iter_mut().filter(|judged| judged.name == pool) {
                (judged.budgets, judged.windows) = (policy.budgets.clone(), policy.windows.clone());
            }
            replace_settings(&mut input.facts, &pool, policy);
        }
        Ok(())
    }

    /// Applies the changes to `input`; returns the disruption settings of the NodePools of the manifests.
    fn replace_in(&self, input: &mut PlanningInput) -> Result<BTreeMap<PoolName, DisruptionPolicy>, Vec<InputError>> {
        let region = region(input);
        if let Some(settings) = self.settings {
            input.policy.preferences = settings.preferences;
            input.policy.min_values = settings.min_values;
        }
        if let Some(catalogue) = &self.catalogue {
            replace_catalogues(input, &machines_of(catalogue, region.clone())?);
        }
        if self.manifests.is_empty() {
            return Ok(BTreeMap::new());
        }
        let catalogue = self.catalogue.clone();
        // Without an entry for the region, the catalogue of the decision is used.
        let options =
            Options { region, allow_no_zones: true, catalogue, now: input.now, disrupt: true, ..Options::default() };
        let Captured { input: read, running, .. } = planning_input::read(&self.manifests, &options)?;
        read.pools.into_iter().for_each(|pool| replace(input, pool));
        Ok(running.policies)
    }
}

/// Replaces the disruption settings of `pool`, if the method reads them.
fn replace_settings(facts: &mut SelectionFacts, pool: &PoolName, policy: DisruptionPolicy) {
    let known = match facts {
        SelectionFacts::Empty(facts) => facts.pools.get_mut(pool),
        SelectionFacts::Outgoing(facts) | SelectionFacts::Consolidated(facts) => {
            facts.pools.get_mut(pool).map(|known| &mut known.facts)
        }
        SelectionFacts::Expiring(facts) => {
            let of_pool = facts.machines.iter_mut().filter(|one| &one.machine.pool == pool);
            of_pool.for_each(|one| one.jitter = policy.expire_jitter);
            None
        }
        SelectionFacts::Announced(_) | SelectionFacts::Surplus(_) | SelectionFacts::Unhealthy(_) => None,
    };
    if let Some(known) = known {
        known.policy = policy;
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

/// Prices running nodes by the catalogues of their NodePools; one without such an offering keeps its price.
fn reprice(input: &PlanningInput, running: &mut RunningCluster) {
    for running in &mut running.nodes {
        let price = input.nodes.get(running.node as usize).and_then(|node| price_of(input, node));
        running.price = price.unwrap_or(running.price);
    }
}

fn price_of(input: &PlanningInput, node: &Node) -> Option<MicroUsd> {
    let pool = input.pools.iter().find(|pool| Some(&pool.name) == node.pool.as_ref())?;
    cluster::price(pool, &node.labels)
}

/// Replaces the disruption settings of `pool`. The last pod event of a node is that of the decision; a node that
/// was never consolidatable is from the time of the decision on.
fn replace_policy(input: &PlanningInput, running: &mut RunningCluster, pool: PoolName, policy: DisruptionPolicy) {
    let before = running.policies.get(&pool).and_then(|policy| policy.consolidate_after);
    for running in &mut running.nodes {
        let of_pool = input.nodes.get(running.node as usize).and_then(|node| node.pool.as_ref()) == Some(&pool);
        let Some(claim) = running.claim.as_mut().filter(|_| of_pool) else { continue };
        claim.consolidatable = match (claim.consolidatable, before, policy.consolidate_after) {
            (_, _, None) => Consolidatable::Never,
            (Consolidatable::From(from), Some(before), Some(wait)) => Consolidatable::From(from - before + wait),
            (_, _, Some(_)) => Consolidatable::From(input.now),
        };
    }
    running.policies.insert(pool, policy);
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
