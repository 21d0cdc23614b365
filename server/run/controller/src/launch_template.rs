//! What the instances of an order are configured by: the EC2NodeClass as observed, and the NodeClaim.

use std::sync::Arc;

use super::{ClaimOrder, Settings};
use crate::settings::ClassFacts;
use cluster::ClusterState;
use model::resources::PODS;
use model::{InstanceType, InstanceTypeInput, InstanceTypeName, LaunchOption, LaunchTemplateInput, NodePool};

const EFA: &str = "vpc.amazonaws.com/efa";
const ENCLAVE: &str = "eks.amazonaws.com/nitro-sandbox";

/// The input of the launch templates for `claim`; `None` while its EC2NodeClass is not resolved, or if
/// nothing resolves it.
pub(crate) fn launch_template(
    state: &ClusterState,
    settings: &Settings,
    pool: &NodePool,
    claim: &ClaimOrder,
    options: &[LaunchOption],
) -> Option<Arc<LaunchTemplateInput>> {
    if settings.class_facts != ClassFacts::Resolved {
        return None;
    }
    let class = state.class(&claim.node_class)?;
    class.status.images.as_ref()?;
    let input = |option: &LaunchOption| {
        let kind = instance_type(pool, &option.instance_type)?;
        let image = class.status.image_for(&kind.labels)?;
        let count = |resource: &str| u32::try_from(kind.capacity.get(resource)).unwrap_or(0);
        let input = InstanceTypeInput {
            max_pods: count(PODS),
            image: image.id.clone(),
            image_name: image.name.clone(),
            efa: count(EFA),
        };
        Some((kind.name.clone(), input))
    };
    Some(Arc::new(LaunchTemplateInput {
        cluster: Arc::clone(state.facts()),
        node_class: class.spec.clone()?,
        status: Arc::clone(&class.status),
        labels: claim.labels.clone(),
        taints: claim.taints.clone(),
        startup_taints: claim.startup_taints.clone(),
        instance_types: options.iter().filter_map(input).collect(),
        uses_efa: claim.requests.get(EFA) > 0,
        uses_enclave: claim.requests.get(ENCLAVE) > 0,
    }))
}

fn instance_type<'p>(pool: &'p NodePool, name: &InstanceTypeName) -> Option<&'p InstanceType> {
    let types = &pool.catalogue.types;
    types.binary_search_by(|kind| kind.name.cmp(name)).ok().map(|at| &types[at])
}
