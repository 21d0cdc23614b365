//! The plan that is being made for a cluster: what it relies on, and what of that still holds when it is there.
//!
//! A plan is made from what was believed when it was asked for. Pods that are gone, bound or changed since have no part in
//! it any more; a machine from a pool that has changed, was frozen, is sold out or has no room under its limits is not
//! bought; room on a node that goes is not given. What falls away is planned again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{PlanNumber, PlanRequest};
use crate::cluster::{PodKey, PodRecord};
use crate::control::cluster_controller::{ClusterController, Context};
use crate::control::{UnplacedPod, order};
use crate::input::PlanningInput;
use crate::model::resources::NODES;
use crate::model::{Labels, MicroUsd, NodePool, NodeStage, PodShape, Resources, Text, Timestamp, VolumeAlternatives};
use crate::plan::{Plan, PlanReport, PlannedNode};

/// How long empty nodes are kept for a plan that is under way and may use them, in milliseconds. A plan is bounded in its
/// steps and takes seconds at most; one that waits behind others for longer finds nodes gone and is made again for their pods.
pub const AWAITED_MS: i64 = 5 * 60_000;

/// A plan that was asked for and is not there yet.
#[derive(Debug)]
pub struct UnderWay {
    /// Its number.
    pub number: PlanNumber,
    /// When it was asked for.
    pub since: Timestamp,
    /// When the window was opened that its pods gathered in.
    pub opened: Option<Timestamp>,
    /// When it was due.
    pub due: Timestamp,
    /// Version of the state that it is made from.
    pub version: u64,
    /// Pods that were held back from it, and why.
    pub held: Vec<UnplacedPod>,
    /// How many pods it is for.
    pub pods: usize,
    /// NodeClaims whose drains wait for it.
    pub drains: Vec<Text>,
    relied_on: ReliedOn,
}

/// What was believed when the plan was asked for.
#[derive(Debug)]
struct ReliedOn {
    /// The pods, in the order of the input.
    pods: Vec<Option<PodFacts>>,
    /// NodePools by name.
    pools: BTreeMap<Text, PoolFacts>,
}

/// What planning looks at of a pod. Records share these parts, so that comparing them is comparing addresses.
#[derive(Debug)]
struct PodFacts {
    uid: Text,
    shape: Arc<PodShape>,
    labels: Arc<Labels>,
    volumes: Option<Arc<VolumeAlternatives>>,
}

#[derive(Debug)]
struct PoolFacts {
    revision: Text,
    used: Resources,
}

impl PodFacts {
    fn of(pod: &PodRecord) -> Self {
        let PodRecord { uid, shape, labels, volumes, .. } = pod;
        Self { uid: uid.clone(), shape: shape.clone(), labels: labels.clone(), volumes: volumes.clone() }
    }

    fn hold_for(&self, pod: &PodRecord) -> bool {
        self.uid == pod.uid && self.shape == pod.shape && self.labels == pod.labels && self.volumes == pod.volumes
    }
}

impl UnderWay {
    /// Until when empty nodes are kept for it.
    pub fn awaited_until(&self) -> Timestamp {
        Timestamp(self.since.0.saturating_add(AWAITED_MS))
    }
}

impl ClusterController {
    /// Notes what a request relies on; its answer is awaited from here on.
    pub fn await_plan(
        &mut self,
        request: &PlanRequest,
        due: Timestamp,
        opened: Option<Timestamp>,
        held: Vec<UnplacedPod>,
        desk: &Context<'_>,
    ) {
        let state = &self.state;
        let input = &request.input;
        let pods = (0..input.pods.len()).map(|at| state.pod(&key_of(input, at)).map(PodFacts::of));
        let mut used = self.used_of_pools();
        let pools = state.pools().map(|record| {
            let used = used.remove(&record.pool.name).unwrap_or_default();
            (record.pool.name.clone(), PoolFacts { revision: record.revision.clone(), used })
        });
        self.under_way = Some(UnderWay {
            number: request.number,
            since: desk.now,
            opened,
            due,
            version: state.version(),
            held,
            pods: input.pods.len(),
            drains: self.drains_that_wait(desk.now),
            relied_on: ReliedOn { pods: pods.collect(), pools: pools.collect() },
        });
    }

    /// The plan that has come, if it is the one that is awaited and may still be acted on.
    pub fn arrived(&mut self, number: PlanNumber) -> Option<UnderWay> {
        if self.under_way.as_ref()?.number != number {
            return None;
        }
        self.under_way.take()
    }

    /// Takes out of a plan what does not hold any more; says whether there was anything.
    pub fn drop_outdated(
        &self,
        under_way: &UnderWay,
        input: &PlanningInput,
        (plan, report): (&mut Plan, &mut PlanReport),
        desk: &Context<'_>,
    ) -> bool {
        let relied_on = &under_way.relied_on;
        let kept: Vec<bool> = (0..input.pods.len()).map(|at| self.still_wants(relied_on, input, at, desk)).collect();
        let keeps = |pod: &u32| kept.get(*pod as usize).copied().unwrap_or(false);
        let count = |plan: &Plan| {
            let pods = plan.nodes.iter().map(|node| node.pods.len()).sum::<usize>() + plan.unschedulable.len();
            (plan.nodes.len(), plan.static_nodes.len(), plan.placements.len(), pods)
        };
        let before = count(plan);
        plan.unschedulable.retain(keeps);
        report.unschedulable.retain(|entry| keeps(&entry.pod));
        plan.placements.retain(|(pod, node)| keeps(pod) && self.still_has_room_on(input, *node));
        let mut room = RoomUnderLimits { used: self.used_of_pools(), bought: BTreeMap::new() };
        plan.nodes.retain_mut(|node| {
            node.pods.retain(keeps);
            !node.pods.is_empty() && self.may_still_buy(relied_on, input, node, &mut room, desk)
        });
        plan.static_nodes.retain(|node| self.may_still_buy(relied_on, input, node, &mut room, desk));
        let dropped = count(plan) != before;
        if dropped {
            report.new_cost = MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum());
            report.lower_bound = MicroUsd(0);
        }
        dropped
    }

    /// Whether the pod is the one that was planned, and needs a place as it did.
    fn still_wants(&self, relied_on: &ReliedOn, input: &PlanningInput, at: usize, desk: &Context<'_>) -> bool {
        let Some(pod) = self.state.pod(&key_of(input, at)) else { return false };
        let facts = relied_on.pods.get(at).and_then(Option::as_ref);
        facts.is_some_and(|facts| facts.hold_for(pod)) && self.state.is_demand(pod, desk.now)
    }

    fn still_has_room_on(&self, input: &PlanningInput, node: u32) -> bool {
        let node = &input.nodes[node as usize];
        match node.stage {
            NodeStage::InFlight => {
                let claim = self.state.claim(&node.name);
                claim.is_some_and(|claim| !claim.deleting && !self.state.is_going(&claim.name))
            }
            _ => self.state.node(&node.name).is_some() && !self.state.is_going_node(&node.name),
        }
    }

    /// Whether the pool is as it was, may be bought from, has something for sale, and has room under its limits.
    fn may_still_buy(
        &self,
        relied_on: &ReliedOn,
        input: &PlanningInput,
        node: &PlannedNode,
        room: &mut RoomUnderLimits,
        desk: &Context<'_>,
    ) -> bool {
        let pool = &input.pools[node.pool as usize];
        let Some(record) = self.state.pool(&pool.name) else { return false };
        let Some(facts) = relied_on.pools.get(&pool.name) else { return false };
        let unchanged = record.revision == facts.revision
            && record.pool.not_ready.is_none()
            && self.state.left_to_others(record).is_none();
        unchanged
            && self.may_launch(&pool.name, desk)
            && is_for_sale(pool, node, desk)
            && room.is_there(pool, node, &facts.used)
    }

    /// What the NodeClaims of each pool take of its limits.
    fn used_of_pools(&self) -> BTreeMap<Text, Resources> {
        let mut used: BTreeMap<Text, Resources> = BTreeMap::new();
        for claim in self.state.claims() {
            let used = used.entry(claim.pool.clone()).or_default();
            used.add(&claim.capacity);
            used.add(&Resources::from_iter([(NODES, 1)]));
        }
        used
    }
}

/// What pools have used of their limits by now, and what the plan adds.
struct RoomUnderLimits {
    used: BTreeMap<Text, Resources>,
    bought: BTreeMap<Text, Resources>,
}

impl RoomUnderLimits {
    /// Whether there is room for one more machine. The plan was made within the limits for what was `used_then`; only when that
    /// has changed is it counted again, with the most that any option of a machine takes.
    fn is_there(&mut self, pool: &NodePool, node: &PlannedNode, used_then: &Resources) -> bool {
        let used = self.used.get(&pool.name).cloned().unwrap_or_default();
        if pool.replicas.is_some() {
            return used.get(NODES) == used_then.get(NODES);
        }
        if used == *used_then {
            return true;
        }
        let mut with = self.bought.get(&pool.name).cloned().unwrap_or_default();
        with.add(&order::largest(pool, node));
        with.add(&Resources::from_iter([(NODES, 1)]));
        let mut all = used;
        all.add(&with);
        let within = pool.limits.iter().all(|(name, limit)| all.get(name) <= limit);
        if within {
            self.bought.insert(pool.name.clone(), with);
        }
        within
    }
}

/// Whether an option of the machine is for sale that was when the plan was asked for.
fn is_for_sale(pool: &NodePool, node: &PlannedNode, desk: &Context<'_>) -> bool {
    order::options(pool, node)
        .iter()
        .any(|option| !desk.offerings.is_sold_out(&option.instance_type, &option.zone, node.capacity_type))
}

fn key_of(input: &PlanningInput, pod: usize) -> PodKey {
    let pod = &input.pods[pod];
    PodKey { namespace: pod.namespace.clone(), name: pod.name.clone() }
}
