//! Shrunk inputs of former failures, each with its expected plan.

mod clusters;
mod launches;
mod opt_in;
mod prices;
mod spreads;
mod unplaced;

use model::{CapacityType, NodeStage};

use crate::cases::{Case, NodeCase, PodCase, PoolCase, ShapeCase, SpreadCase, TermCase, TypeCase};

const WEB: usize = 0;
const DB: usize = 1;
const JOB: usize = 2;

/// A type for eight pods, with these offerings: zone, capacity type, price in thousandths of a
/// dollar.
pub fn instance_type(cpus: i64, gib: i64, offerings: &[(&'static str, CapacityType, i64)]) -> TypeCase {
    TypeCase { cpus, gib, pods: 8, arm: false, exotic: false, attach: None, offerings: offerings.to_vec() }
}

/// A pod of half a CPU and 1 GiB.
pub fn small() -> ShapeCase {
    ShapeCase { half_cpus: 1, gib: 1, ..ShapeCase::default() }
}

pub fn pod(shape: usize, app: usize) -> PodCase {
    PodCase { shape, app, ..PodCase::default() }
}

/// An unmanaged on-demand node with 4 GiB per CPU.
pub fn node(zone: &'static str, cpus: i64, pods: Vec<PodCase>) -> NodeCase {
    NodeCase {
        zone,
        spot: false,
        cpus,
        arm: false,
        tier: None,
        rack: None,
        tainted: false,
        soft_tainted: false,
        cordoned: false,
        stage: NodeStage::Initialized,
        pool: None,
        attach: None,
        daemons_run: false,
        pods,
    }
}

/// Hard, skew 1.
fn spread(key: &'static str, app: usize) -> SpreadCase {
    SpreadCase { key, skew: 1, min_domains: None, hard: true, app, honor_affinity: true, honor_taints: false }
}

pub fn affinity_term(key: &'static str, app: usize) -> TermCase {
    TermCase { key, app, all_namespaces: false }
}

/// One pool that allows `types`.
pub fn fixture(types: Vec<TypeCase>, shapes: Vec<ShapeCase>, pods: Vec<PodCase>) -> Case {
    Case { types, pools: vec![PoolCase::default()], shapes, pods, ..Case::default() }
}
