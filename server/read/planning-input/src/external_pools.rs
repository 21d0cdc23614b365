//! NodePools of other controllers (EKS Auto Mode, other clouds): the API group of their NodeClass
//! is not `karpenter.k8s.aws`.

use std::collections::BTreeSet;

use manifests::karpenter::{NodeClassManifest, NodePoolManifest};
use manifests::notes::Notes;
use model::{Node, PoolName};

use crate::options::Options;

/// Names of the pools that another controller manages.
#[derive(Debug, Default)]
pub struct ExternalPools(BTreeSet<PoolName>);

/// Removes external pools from `pools`, with a note. With a custom catalogue and no EC2NodeClass in
/// the input, nodes of any cloud are planned, and none is external.
pub fn remove_external_pools(
    pools: &mut Vec<NodePoolManifest>,
    classes: &[NodeClassManifest],
    options: &Options,
    notes: &mut Notes,
) -> ExternalPools {
    let mut external = ExternalPools::default();
    if options.catalogue.is_some() && classes.is_empty() {
        return external;
    }
    pools.retain(|pool| {
        if pool.class.is_ec2() {
            return true;
        }
        let object = format!("NodePool/{} ({}/{})", pool.name, pool.class.group, pool.class.kind);
        notes.add(
            "NodePools whose NodeClass is of another API group belong to another controller and are not planned",
            &object,
        );
        external.0.insert(pool.name.clone());
        false
    });
    external
}

impl ExternalPools {
    /// Clears the pool of a node of an external pool: its capacity is used, and no managed pool
    /// counts it.
    pub fn clear_pool(&self, node: &mut Node) {
        node.pool.take_if(|pool| self.0.contains(pool));
    }
}
