//! Clusters at rest, for runs that begin with machines.

use cluster::LaunchedFacts;
use controller::{ClaimOrder, Instruction};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODECLASS, NODEPOOL, ZONE};
use model::{ClaimName, Labels, Millis, NodeName, PoolName, ProviderId, Requirements, Resources, Text, Timestamp};

use super::SimulatedCluster;
use super::cluster::ClusterSettings;

/// Instances join within this time, whatever the settings.
const JOINED: Millis = Millis::from_mins(2);

/// A machine that was launched and has joined.
pub(crate) struct Machine<'m> {
    pub(crate) claim: ClaimName,
    pub(crate) pool: &'m str,
    pub(crate) provider_id: ProviderId,
    pub(crate) instance_type: &'m str,
    pub(crate) zone: &'m str,
    pub(crate) capacity_type: &'m str,
    pub(crate) allocatable: Resources,
}

/// A cluster with `machines`, which were launched at `launched`. They are registered and initialized, as a server
/// would do it, at the time that is returned.
pub(crate) fn settled(
    settings: ClusterSettings,
    machines: &[Machine<'_>],
    launched: Timestamp,
) -> (SimulatedCluster, Timestamp) {
    let mut cluster = SimulatedCluster::new(settings);
    for machine in machines {
        for instruction in [create(machine), mark_launched(machine)] {
            let _told = cluster.instruct(&instruction, launched);
        }
    }
    let joined = launched + JOINED;
    drop(cluster.tick(joined));
    let claim_of = |node: &NodeName| ClaimName::from(node.trim_start_matches("ip-"));
    let names: Vec<(ClaimName, NodeName)> =
        cluster.nodes().map(|node| (claim_of(&node.name), node.name.clone())).collect();
    for (claim, node) in names {
        let register = Instruction::RegisterNode {
            claim: claim.clone(),
            node: node.clone(),
            labels: Labels::new(),
            taints: Vec::new(),
            nominations: Vec::new(),
        };
        for instruction in [register, Instruction::InitializeNode { claim, node }] {
            let _told = cluster.instruct(&instruction, joined);
        }
    }
    (cluster, joined)
}

fn create(machine: &Machine<'_>) -> Instruction {
    let capacity_type = (CAPACITY_TYPE, machine.capacity_type);
    Instruction::CreateClaim(ClaimOrder {
        name: machine.claim.clone(),
        pool: PoolName::from(machine.pool),
        node_class: Text::from("default"),
        labels: labels(&[(NODEPOOL, machine.pool), (NODECLASS, "default"), capacity_type]),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        requirements: Requirements::new(),
        requests: Resources::new(),
        expire_after: None,
        termination_grace_period: None,
        pool_hash: None,
        class_hash: None,
    })
}

fn mark_launched(machine: &Machine<'_>) -> Instruction {
    let capacity_type = (CAPACITY_TYPE, machine.capacity_type);
    Instruction::MarkLaunched {
        claim: machine.claim.clone(),
        facts: LaunchedFacts {
            provider_id: machine.provider_id.clone(),
            labels: labels(&[(INSTANCE_TYPE, machine.instance_type), (ZONE, machine.zone), capacity_type]),
            capacity: machine.allocatable.clone(),
            allocatable: machine.allocatable.clone(),
            image: Text::default(),
        },
    }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect()
}
