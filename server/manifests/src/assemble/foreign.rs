//! NodePools of other controllers (EKS Auto Mode, other clouds): their NodeClass is of a foreign API group.

use std::collections::BTreeSet;

use engine::model::{Node, Text};

use crate::Options;
use crate::karpenter::{NodeClassManifest, NodePoolManifest};
use crate::notes::Notes;

/// Names of the pools that another controller manages.
#[derive(Debug, Default)]
pub struct ForeignPools(BTreeSet<Text>);

/// Removes foreign pools from `pools`, with a note. With a custom catalogue and no EC2NodeClass in
/// the input, nodes of any cloud are planned, and none is foreign.
pub fn set_aside(
    pools: &mut Vec<NodePoolManifest>,
    classes: &[NodeClassManifest],
    options: &Options,
    notes: &mut Notes,
) -> ForeignPools {
    let mut foreign = ForeignPools::default();
    if options.catalogue.is_some() && classes.is_empty() {
        return foreign;
    }
    pools.retain(|pool| {
        if pool.class.is_ec2() {
            return true;
        }
        let object = format!("NodePool/{} ({}/{})", pool.name, pool.class.group, pool.class.kind);
        notes.add("NodePools whose NodeClass is of another API group are left to their own controller", &object);
        foreign.0.insert(pool.name.clone());
        false
    });
    foreign
}

impl ForeignPools {
    /// A node of a foreign pool has capacity as any other, and belongs to no managed pool.
    #[must_use]
    pub fn release(&self, node: Node) -> Node {
        let pool = node.pool.filter(|pool| !self.0.contains(pool));
        Node { pool, ..node }
    }
}
