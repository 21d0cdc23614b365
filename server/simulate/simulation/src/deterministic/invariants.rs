//! The invariants: those of every step, and those once the system is at rest. All are checked
//! against the ground truth of cloud and clusters, none against the state of a server.

use std::collections::BTreeSet;

use cloud::provider::InstanceState;
use cloud::simulated::LedgerEntry;
use cluster::{ClaimRecord, PodPhase};
use model::resources::NODES;
use model::{ClaimName, ClusterName, Millis, NodeName, ProviderId, Resources, Text, Timestamp};

use super::Simulation;
use super::environment::{CloudAction, CloudCall};
use super::setup::RateBounds;
use super::sim_cluster::SimCluster;
use super::violation::{COLLECTION_BOUND, Violation};

/// A process may not know of a deleted NodeClaim for so long: a connection is cut for a minute at
/// most.
const DELETION_UNSEEN_FOR: Millis = Millis::from_secs(90);

impl Simulation {
    /// Checks the invariants of every step and, if `slow_checks`, those over time.
    pub(super) fn check(&mut self, slow_checks: bool) {
        // Each list is drained, so that a violation is reported once; a call is checked before it
        // is recorded.
        let calls = std::mem::take(&mut self.events.environment.ledger().calls);
        for call in calls {
            let found = self.check_call(&call);
            self.violations.extend(found);
            self.record_launch_order(call);
        }
        let late = std::mem::take(&mut self.events.environment.ledger().late_writes);
        self.violations.extend(late.into_iter().map(|cluster| Violation::LateWrite { cluster }));
        let frozen = std::mem::take(&mut self.events.environment.ledger().decided_frozen);
        self.violations.extend(frozen.into_iter().map(|cluster| Violation::DecidedFrozen { cluster }));
        let failing = std::mem::take(&mut self.events.environment.ledger().removed_despite_failures);
        self.violations.extend(failing.into_iter().map(|cluster| Violation::RemovedWhileFailing { cluster }));
        let elsewhere = std::mem::take(&mut self.events.environment.ledger().removed_despite_remote_failures);
        self.violations.extend(elsewhere.into_iter().map(|cluster| Violation::RemovedWhileOthersFail { cluster }));
        let launched = self.events.environment.cloud().ledger().launched_count();
        if launched != self.history.launched {
            self.record_launches(launched - self.history.launched);
            self.history.launched = launched;
            let doubles = self.events.environment.cloud().ledger().duplicate_launches();
            let twice = |(cluster, claim)| Violation::LaunchedTwice { cluster, claim };
            self.violations.extend(doubles.into_iter().map(twice));
            let over: Vec<Violation> =
                self.sim_clusters.iter().flat_map(|sim_cluster| self.over_limit(sim_cluster)).collect();
            self.violations.extend(over);
        }
        for sim_cluster in &mut self.sim_clusters {
            self.violations.extend(check_cluster_ledger(sim_cluster));
        }
        if slow_checks {
            self.check_unclaimed();
            self.check_empty_nodes();
            self.check_new_machines();
            self.check_moves();
            let over = self.rate_bounds.map(|rate_bounds| self.over_rate_bounds(rate_bounds));
            self.violations.extend(over.into_iter().flatten());
        }
    }

    /// Runs with rate bounds have one cluster, so every launch is its.
    fn record_launches(&mut self, count: usize) {
        let (Some(_), Some(sim_cluster)) = (self.rate_bounds, self.sim_clusters.first()) else { return };
        let now = self.events.now();
        self.history.launches.entry(sim_cluster.name.clone()).or_default().extend(std::iter::repeat_n(now, count));
    }

    /// Clusters that exceed the rate bounds.
    fn over_rate_bounds(&self, rate_bounds: RateBounds) -> Vec<Violation> {
        let now = self.events.now();
        let lately = |moments: &[Timestamp]| {
            moments.iter().filter(|moment| now.duration_since(**moment) < rate_bounds.window).count()
        };
        let mut over = Vec::new();
        for sim_cluster in &self.sim_clusters {
            let launches = self.history.launches.get(&sim_cluster.name).map_or(0, |sales| lately(sales));
            if launches > rate_bounds.launches {
                over.push(Violation::OverCap { cluster: sim_cluster.name.clone(), what: "were launched" });
            }
            if lately(&sim_cluster.ledger.drains) > rate_bounds.removals {
                over.push(Violation::OverCap { cluster: sim_cluster.name.clone(), what: "were removed" });
            }
        }
        over
    }

    /// NodePools over their limits. Instances being removed do not count (Karpenter: limits apply
    /// to active nodes), so an interrupted instance may be replaced at once.
    fn over_limit(&self, sim_cluster: &SimCluster) -> Vec<Violation> {
        let cloud = self.events.environment.cloud();
        let stays = |entry: &&LedgerEntry| entry.interrupted.is_none() && is_running(&cloud, entry);
        let staying: BTreeSet<&ProviderId> =
            cloud.ledger().active().filter(stays).map(|entry| &entry.instance.provider_id).collect();
        let mut over = Vec::new();
        for record in &sim_cluster.pools {
            let mut used = Resources::new();
            let counts = |claim: &&ClaimRecord| {
                claim.pool == record.pool.name
                    && staying.contains(&claim.provider_id)
                    && !sim_cluster.cluster.is_draining(&claim.name)
            };
            for claim in sim_cluster.cluster.claims().filter(counts) {
                used.add(&claim.capacity);
                used.add(&Resources::from_iter([(NODES, 1)]));
            }
            if record.pool.limits.iter().any(|(name, limit)| used.get(name) > limit) {
                over.push(Violation::OverLimit { cluster: sim_cluster.name.clone(), pool: record.pool.name.clone() });
            }
        }
        over
    }

    fn check_call(&self, call: &CloudCall) -> Vec<Violation> {
        let mut found = Vec::new();
        let cluster = call.cluster.clone();
        let held = self.events.environment.ledger().held.get(&cluster).copied();
        if held.is_some_and(|held| held.by != call.by) {
            found.push(Violation::FencedCall { cluster: cluster.clone(), what: describe_action(&call.what) });
        }
        let Some(sim_cluster) = self.sim_clusters.iter().find(|sim_cluster| sim_cluster.name == cluster) else {
            return found;
        };
        match &call.what {
            CloudAction::Launch { claim } => {
                if !sim_cluster.has_claim(claim) && !self.may_query_removed_claim(sim_cluster, claim) {
                    found.push(Violation::LaunchBeforeClaim { cluster, claim: claim.clone() });
                }
            }
            CloudAction::Terminate { id } => {
                let cloud = self.events.environment.cloud();
                let entry =
                    cloud.ledger().active().find(|entry| entry.instance.id == *id && entry.interrupted.is_none());
                let Some(entry) = entry.filter(|entry| is_running(&cloud, entry)) else { return found };
                let claim = entry.instance.claim.clone();
                if sim_cluster.cluster.running_on(&entry.instance.provider_id).next().is_some() {
                    found.push(Violation::GivenBackInUse { cluster, claim });
                }
            }
        }
        found
    }

    /// Whether a launch may be called for a removed NodeClaim: a process that called before repeats
    /// the call with the same token to learn its outcome, and a process that has just created the
    /// NodeClaim cannot know of the removal.
    fn may_query_removed_claim(&self, sim_cluster: &SimCluster, claim: &ClaimName) -> bool {
        let Some(at) = sim_cluster.ledger.removed_claims.get(claim) else { return false };
        let asked = self.history.launch_called.contains(&(sim_cluster.name.clone(), claim.clone()));
        asked || self.events.now().duration_since(*at) < DELETION_UNSEEN_FOR
    }

    fn record_launch_order(&mut self, call: CloudCall) {
        let CloudAction::Launch { claim } = call.what else { return };
        if self.sim_clusters.iter().any(|sim_cluster| sim_cluster.name == call.cluster && sim_cluster.has_claim(&claim))
        {
            self.history.launch_called.insert((call.cluster, claim));
        }
    }

    /// In runs whose pods have a node each, a new machine is for a pod without a node, or replaces a node; budgets limit
    /// the latter. A second replacement of a node is one machine more.
    fn check_new_machines(&mut self) {
        if !self.one_pod_per_node {
            return;
        }
        for sim_cluster in &self.sim_clusters {
            let cloud = self.events.environment.cloud();
            let mine = |entry: &&LedgerEntry| entry.instance.cluster == sim_cluster.name && is_running(&cloud, entry);
            let new = |entry: &&LedgerEntry| {
                let claim = &entry.instance.claim;
                sim_cluster.has_claim(claim)
                    && !sim_cluster.cluster.was_used(claim)
                    && !sim_cluster.cluster.is_draining(claim)
            };
            for record in &sim_cluster.pools {
                let pool = &record.pool.name;
                let active = cloud.ledger().active().filter(mine).filter(new);
                let machines = active.filter(|entry| entry.instance.pool == *pool).count();
                let leaving = sim_cluster.leaving_from(pool);
                let replaced = sim_cluster.most_replaced(record).saturating_sub(leaving);
                let needed = sim_cluster.cluster.pods_without_node_in(pool) + replaced;
                if machines > needed {
                    let (cluster, pool) = (sim_cluster.name.clone(), pool.clone());
                    self.violations.insert(Violation::TwoReplacements { cluster, pool, machines, needed });
                }
            }
        }
    }

    fn check_moves(&mut self) {
        for sim_cluster in self.sim_clusters.iter().filter(|_| self.moves_once) {
            let moves = sim_cluster.cluster.ledger().moves.iter().map(|(_, of_day)| *of_day).max().unwrap_or(0);
            if moves > 1 {
                self.violations.insert(Violation::MovedAgain { cluster: sim_cluster.name.clone(), moves });
            }
        }
    }

    /// One node is removed at a time; the others wait.
    fn check_empty_nodes(&mut self) {
        let Some(bound) = self.empty_for else { return };
        let now = self.events.now();
        for sim_cluster in &self.sim_clusters {
            let nodes: Vec<NodeName> = sim_cluster.cluster.empty_nodes().cloned().collect();
            let leaves = sim_cluster.cluster.claims().any(|claim| sim_cluster.cluster.is_draining(&claim.name));
            if nodes.is_empty() || leaves {
                self.history.empty.remove(&sim_cluster.name);
                continue;
            }
            let since = *self.history.empty.entry(sim_cluster.name.clone()).or_insert(now);
            if now.duration_since(since) >= bound {
                self.violations.insert(Violation::EmptyTooLong { cluster: sim_cluster.name.clone(), nodes });
            }
        }
    }

    /// A drain takes as long as PodDisruptionBudgets require; whether it ends is checked at rest. While a cluster has no Node,
    /// the removal gate holds its removals: an agent that reports none is not believed.
    fn check_unclaimed(&mut self) {
        let now = self.events.now();
        let mut unclaimed = self.unclaimed();
        unclaimed.retain(|(cluster, instance)| self.has_nodes(cluster) && !self.is_being_drained(cluster, instance));
        self.history.unclaimed.retain(|id, _| unclaimed.iter().any(|(_, instance)| instance == id));
        for (cluster, instance) in unclaimed {
            let since = *self.history.unclaimed.entry(instance.clone()).or_insert(now);
            if now.duration_since(since) >= COLLECTION_BOUND {
                self.violations.insert(Violation::Unclaimed { cluster, instance });
            }
        }
    }

    fn has_nodes(&self, cluster: &ClusterName) -> bool {
        let sim_cluster = self.sim_clusters.iter().find(|sim_cluster| sim_cluster.name == *cluster);
        sim_cluster.is_none_or(|sim_cluster| sim_cluster.cluster.nodes().next().is_some())
    }

    fn is_being_drained(&self, cluster: &ClusterName, instance: &Text) -> bool {
        let cloud = self.events.environment.cloud();
        let Ok(known) = cloud.describe(instance) else { return false };
        let sim_cluster = self.sim_clusters.iter().find(|sim_cluster| sim_cluster.name == *cluster);
        sim_cluster.is_some_and(|sim_cluster| {
            let pods_left = sim_cluster.cluster.running_on(&known.provider_id).next().is_some();
            pods_left && sim_cluster.cluster.is_machine_draining(&known.provider_id)
        })
    }

    /// Running instances without a NodeClaim: cluster and instance.
    fn unclaimed(&self) -> Vec<(ClusterName, Text)> {
        let cloud = self.events.environment.cloud();
        let mut found = Vec::new();
        for entry in cloud.ledger().active().filter(|entry| is_running(&cloud, entry)) {
            let instance = &entry.instance;
            let sim_cluster = self.sim_clusters.iter().find(|sim_cluster| sim_cluster.name == instance.cluster);
            if sim_cluster
                .is_none_or(|sim_cluster| sim_cluster.cluster.claims().all(|claim| claim.name != instance.claim))
            {
                found.push((instance.cluster.clone(), instance.id.clone()));
            }
        }
        found
    }

    /// The invariants at rest that do not hold.
    pub(super) fn violations_at_rest(&self) -> BTreeSet<Violation> {
        let leaked = self.unclaimed().into_iter().map(|(cluster, instance)| Violation::Leaked { cluster, instance });
        let mut violations_at_rest: BTreeSet<Violation> = leaked.collect();
        for sim_cluster in &self.sim_clusters {
            violations_at_rest.extend(self.cluster_violations_at_rest(sim_cluster));
        }
        violations_at_rest
    }

    fn cluster_violations_at_rest(&self, sim_cluster: &SimCluster) -> Vec<Violation> {
        let cluster = &sim_cluster.name;
        let mut violations_at_rest = Vec::new();
        let pods = sim_cluster.cluster.pods().filter(|pod| pod.daemon.is_none() && pod.phase != PodPhase::Running);
        violations_at_rest
            .extend(pods.map(|pod| Violation::NeverRan { cluster: cluster.clone(), pod: pod.key.to_string() }));
        let empty = sim_cluster.cluster.empty_nodes();
        violations_at_rest
            .extend(empty.map(|node| Violation::StillEmpty { cluster: cluster.clone(), node: node.clone() }));
        let drifted = sim_cluster.cluster.claims().filter(|claim| sim_cluster.has_drifted(&claim.name));
        violations_at_rest.extend(
            drifted.map(|claim| Violation::StillDrifted { cluster: cluster.clone(), claim: claim.name.clone() }),
        );
        let alive: BTreeSet<ProviderId> = {
            let cloud = self.events.environment.cloud();
            cloud.ledger().active().map(|entry| entry.instance.provider_id.clone()).collect()
        };
        let hollow = sim_cluster.cluster.claims().filter(|claim| !alive.contains(&claim.provider_id));
        violations_at_rest
            .extend(hollow.map(|claim| Violation::Hollow { cluster: cluster.clone(), claim: claim.name.clone() }));
        // The owner by the store's answers must run and have an open session.
        let held = self.events.environment.ledger().held.get(cluster).copied();
        let owner = held.and_then(|held| {
            let process = self.processes.get(held.by.process).filter(|process| process.id() == held.by)?;
            process.server.as_ref()?.sessions.get(cluster)
        });
        match owner {
            Some(session) if session.is_open() => {
                if session.pending_instructions() > 0 {
                    let instructions = session.pending_instructions();
                    violations_at_rest.push(Violation::Unanswered { cluster: cluster.clone(), instructions });
                }
            }
            _ => violations_at_rest.push(Violation::Unowned { cluster: cluster.clone() }),
        }
        violations_at_rest
    }
}

fn is_running(cloud: &cloud::simulated::SimulatedCloud, entry: &LedgerEntry) -> bool {
    cloud
        .describe(&entry.instance.id)
        .is_ok_and(|known| matches!(known.state, InstanceState::Pending | InstanceState::Running))
}

fn describe_action(what: &CloudAction) -> String {
    match what {
        CloudAction::Launch { claim } => format!("launch an instance for {claim}"),
        CloudAction::Terminate { id } => format!("terminate {id}"),
    }
}

fn check_cluster_ledger(sim_cluster: &mut SimCluster) -> Vec<Violation> {
    let spread = sim_cluster.check_spread();
    let cluster = &sim_cluster.name;
    let old = sim_cluster.ledger.outdated.drain(..).map(|(instruction, epoch, highest)| Violation::OldEpoch {
        cluster: cluster.clone(),
        instruction,
        epoch,
        highest,
    });
    let mut found: Vec<Violation> = old.collect();
    let orphaned = std::mem::take(&mut sim_cluster.ledger.orphaned).into_iter();
    found.extend(orphaned.map(|claim| Violation::Orphaned { cluster: cluster.clone(), claim }));
    let used = std::mem::take(&mut sim_cluster.ledger.drained_in_use).into_iter();
    found.extend(used.map(|claim| Violation::DrainedInUse { cluster: cluster.clone(), claim }));
    let in_use = std::mem::take(&mut sim_cluster.ledger.removed_in_use).into_iter();
    found.extend(in_use.map(|claim| Violation::RemovedInUse { cluster: cluster.clone(), claim }));
    let two = sim_cluster.ledger.owners.iter().filter(|(_, owners)| owners.len() > 1);
    found.extend(two.map(|(epoch, _)| Violation::TwoOwners { cluster: cluster.clone(), epoch: *epoch }));
    if sim_cluster.cluster.ledger().budgets_violated > 0 {
        found.push(Violation::PodBudgetBroken { cluster: cluster.clone() });
    }
    found.append(&mut sim_cluster.ledger.drain_violations);
    found.extend(spread);
    found
}
