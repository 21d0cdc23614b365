//! One round of provisioning: every pod is tried on existing nodes, on the NodeClaims of the round, and
//! on a new NodeClaim (Karpenter core §3.9).

use std::cmp::Reverse;

use model::input::PlanningInput;
use model::{NodePool, Resources};

use crate::amounts::{Amounts, ResourceColumns};
use crate::claim::{Claim, Growth, Refusal, RoundState};
use crate::existing::{ExistingNode, existing_nodes};
use crate::launch::launch;
use crate::launches::Launches;
use crate::pods::{PodKind, kinds};
use crate::queue::Queue;
use crate::reservations::Reservations;
use crate::supply::PoolSupply;
use crate::topology::{Topology, VariantId};

pub(crate) struct Round<'i> {
    input: &'i PlanningInput,
    nothing: Amounts,
    kinds: Vec<PodKind>,
    kind_of_pod: Vec<usize>,
    existing: Vec<ExistingNode<'i>>,
    /// Pools by weight, heaviest first; of equal weights the last by name first (L15).
    pools: Vec<PoolSupply<'i>>,
    topology: Topology<'i>,
    reservations: Reservations,
    claims: Vec<Claim>,
    placements: Vec<(u32, u32)>,
    /// Number of pods placed so far, plus one.
    progress: usize,
    /// For each kind, `progress` when a pod of it last failed: an identical pod fails too.
    failed_at: Vec<usize>,
}

impl<'i> Round<'i> {
    pub(crate) fn new(input: &'i PlanningInput) -> Self {
        let columns = ResourceColumns::of(input);
        let mut usable: Vec<u32> =
            (0..).zip(&input.pools).filter(|(_, pool)| is_usable(pool)).map(|(at, _)| at).collect();
        usable.sort_by_key(|at| {
            let pool = &input.pools[*at as usize];
            (Reverse(pool.weight), Reverse(&pool.name))
        });
        let pools: Vec<&NodePool> = usable.iter().map(|at| &input.pools[*at as usize]).collect();
        let (kinds, kind_of_pod) = kinds(input, &columns, &pools);
        Self {
            input,
            nothing: columns.row(&Resources::new()),
            topology: Topology::new(input, &usable, &kinds),
            failed_at: vec![0; kinds.len()],
            kinds,
            kind_of_pod,
            existing: existing_nodes(input, &columns),
            reservations: Reservations::of(&pools),
            pools: usable.iter().map(|at| PoolSupply::of(*at, input, &columns)).collect(),
            claims: Vec::new(),
            placements: Vec::new(),
            progress: 1,
        }
    }

    /// Places the pods and launches the NodeClaims. Without a usable pool no pod is tried at all.
    pub(crate) fn run(mut self) -> Launches {
        let all = 0..u32::try_from(self.input.pods.len()).unwrap_or(u32::MAX);
        let (tried, mut unschedulable): (Vec<u32>, Vec<u32>) = all.partition(|pod| self.is_tried(*pod));
        let mut queue = Queue::new(self.input, tried);
        while let Some(pod) = queue.pop() {
            if self.place(pod) {
                self.progress += 1;
            } else {
                self.failed_at[self.kind_of_pod[pod as usize]] = self.progress;
                queue.push(pod);
            }
        }
        unschedulable.extend(queue.into_left());
        self.claims.sort_by(|one, other| one.host().cmp(other.host()));
        let mut nodes = Vec::new();
        for claim in &self.claims {
            match launch(claim, &self.pools[claim.pool], self.input) {
                Some(node) => nodes.push(node),
                None => unschedulable.extend(&claim.pods),
            }
        }
        unschedulable.sort_unstable();
        self.placements.sort_unstable();
        Launches { nodes, placements: self.placements, unschedulable }
    }

    /// Pods that validation refuses are not tried.
    fn is_tried(&self, pod: u32) -> bool {
        let pod = &self.input.pods[pod as usize];
        let blocked = pod.volumes.is_some_and(|at| self.input.volume_sets[at as usize].blocked.is_some());
        !self.pools.is_empty() && pod.invalid.is_none() && !blocked
    }

    /// Tries the pod as it is written, then relaxed step by step.
    fn place(&mut self, pod: u32) -> bool {
        let kind = self.kind_of_pod[pod as usize];
        if self.failed_at[kind] == self.progress {
            return false;
        }
        for step in 0..self.kinds[kind].variants.len() {
            let id = (kind, step);
            self.topology.register(&self.kinds, id);
            if self.place_on_existing(pod, id) || self.place_on_claim(pod, id) {
                return true;
            }
            match self.open_claim(pod, id) {
                Ok(()) => return true,
                // The pod waits for the next round instead of being relaxed.
                Err(Refusal::Reserved) => return false,
                Err(_) => {}
            }
        }
        false
    }

    fn place_on_existing(&mut self, pod: u32, id: VariantId) -> bool {
        let kind = &self.kinds[id.0];
        for existing in &mut self.existing {
            let Some(requirements) = existing.try_pod(kind, id, &self.topology, self.input) else { continue };
            existing.accept(kind, &kind.variants[id.1], requirements, self.input);
            self.topology.record(id.0, &existing.node.taints, &existing.requirements);
            self.placements.push((pod, existing.index));
            return true;
        }
        false
    }

    /// Tries the NodeClaims of the round, those with the fewest pods first, whatever they cost (L15).
    fn place_on_claim(&mut self, pod: u32, id: VariantId) -> bool {
        self.claims.sort_by_key(|claim| claim.pods.len());
        for at in 0..self.claims.len() {
            match self.try_claim(&self.claims[at], id) {
                Ok(growth) => {
                    self.accept(at, pod, id, growth);
                    return true;
                }
                Err(Refusal::Permanent) => self.claims[at].refuse_for_good(id),
                Err(_) => {}
            }
        }
        false
    }

    /// Opens a NodeClaim of the first pool that takes the pod, and charges the largest of its types to
    /// the limits of the pool (L17).
    fn open_claim(&mut self, pod: u32, id: VariantId) -> Result<(), Refusal> {
        for pool in 0..self.pools.len() {
            let supply = &self.pools[pool];
            if supply.has_no_node_left {
                continue;
            }
            let claim = Claim::new(pool, supply, self.claims.len(), self.nothing.clone());
            self.topology.register_host(claim.host());
            let growth = match self.try_claim(&claim, id) {
                Ok(growth) => growth,
                Err(Refusal::Reserved) => return Err(Refusal::Reserved),
                Err(_) => continue,
            };
            let mut largest = self.nothing.clone();
            growth.types().iter().for_each(|at| largest.raise_to(&supply.types[*at].capacity));
            self.pools[pool].limits_left.charge(&largest);
            self.claims.push(claim);
            self.accept(self.claims.len() - 1, pod, id, growth);
            return Ok(());
        }
        Err(Refusal::Temporary)
    }

    fn try_claim(&self, claim: &Claim, id: VariantId) -> Result<Growth, Refusal> {
        let around = RoundState { input: self.input, topology: &self.topology, reservations: &self.reservations };
        claim.try_pod(&self.pools[claim.pool], &self.kinds[id.0], id, &around)
    }

    fn accept(&mut self, at: usize, pod: u32, id: VariantId, growth: Growth) {
        let (claim, kind) = (&mut self.claims[at], &self.kinds[id.0]);
        self.reservations.exchange(&claim.reserved, growth.reserved());
        self.topology.record(id.0, &self.pools[claim.pool].pool.taints, growth.requirements());
        claim.accept(pod, kind, &kind.variants[id.1], growth);
    }
}

fn is_usable(pool: &NodePool) -> bool {
    pool.replicas.is_none() && pool.not_ready.is_none()
}
