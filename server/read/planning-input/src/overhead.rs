//! What a node costs beside its price: by annotation, by flag, or its volumes (plan contract §2).

use std::collections::BTreeMap;

use manifests::karpenter::NodeClassManifest;
use manifests::notes::Notes;
use model::{MicroUsd, NodePool, PoolName};

use crate::options::Options;

/// Price of a volume, in micro-dollars per GiB and month.
const VOLUME_PRICE: i64 = 80_000;
/// Hours of a month.
const HOURS: i64 = 730;
const GIB: i64 = 1 << 30;
/// Assumed size in bytes of the volumes of a node whose NodeClass states none.
const DEFAULT_VOLUMES: i64 = 20 * GIB;

/// Sets the overhead of every pool without the annotation, and notes the figures.
pub fn set_overheads(pools: &mut [NodePool], classes: &[NodeClassManifest], options: &Options, notes: &mut Notes) {
    let mut noted: BTreeMap<(MicroUsd, String), Vec<&PoolName>> = BTreeMap::new();
    for pool in pools {
        let (overhead, source) = match (pool.rules.node_overhead, options.node_overhead) {
            (Some(stated), _) => (stated, "annotation node-overhead-usd".to_owned()),
            (None, Some(flag)) => (flag, "--node-overhead-usd".to_owned()),
            (None, None) if options.catalogue.is_some() => continue,
            (None, None) => of_volumes(pool, classes),
        };
        pool.rules.node_overhead = Some(overhead);
        noted.entry((overhead, source)).or_default().push(&pool.name);
    }
    for ((overhead, source), pools) in noted {
        let names: Vec<&str> = pools.iter().map(|name| name.as_ref()).collect();
        notes.line(format!(
            "NodePool {}: each node counts ${overhead} an hour beside its price in choices, not in the cost ({source})",
            names.join(", ")
        ));
    }
}

/// The cost per hour of the volumes of a node of `pool`, and what it is made of.
fn of_volumes(pool: &NodePool, classes: &[NodeClassManifest]) -> (MicroUsd, String) {
    let class = classes.iter().find(|class| class.name == pool.node_class);
    let bytes = class.and_then(|class| class.volumes).unwrap_or(DEFAULT_VOLUMES);
    (volume_cost(bytes), format!("volumes of {} GiB", bytes / GIB))
}

/// Cost per hour of `bytes` of volumes, rounded to the nearest micro-dollar.
fn volume_cost(bytes: i64) -> MicroUsd {
    let (cost, divisor) = (i128::from(bytes) * i128::from(VOLUME_PRICE), i128::from(GIB) * i128::from(HOURS));
    MicroUsd(i64::try_from((cost + divisor / 2) / divisor).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_cost_eight_cents_per_gib_and_month() {
        // 20 × $0.08 / 730 = $0.00219178; 100 × $0.08 / 730 = $0.0109589.
        assert_eq!(volume_cost(20 * GIB), MicroUsd(2_192));
        assert_eq!(volume_cost(100 * GIB), MicroUsd(10_959));
        assert_eq!(volume_cost(0), MicroUsd(0));
    }
}
