//! What must hold at every step, and what must hold once things have come to rest. All of it is read from the books of cloud
//! and clusters, nothing from what a server believes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cloud::provider::InstanceState;
use cloud::simulated::LedgerEntry;
use engine::cluster::{ClaimRecord, PodPhase};
use engine::model::resources::NODES;
use engine::model::{Resources, Text, Timestamp};

use super::outside::{Act, CloudCall};
use super::setup::{BUDGET, Caps};
use super::{Simulation, Site};

/// A machine that no NodeClaim stands for is gone after this, in milliseconds: two rounds of collection, the cloud's own
/// time, and what faults add to both.
const COLLECTED_MS: i64 = 20 * 60_000;

/// A process may not have heard that a NodeClaim is gone for so long, in milliseconds: a connection is cut for a minute at most.
const UNHEARD_MS: i64 = 90_000;

/// Something that must never be. Names are those of cluster and object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Violation {
    /// A machine was ordered for a NodeClaim that the cluster does not have.
    LaunchBeforeClaim { cluster: Text, claim: Text },
    /// Two machines were sold for one NodeClaim.
    LaunchedTwice { cluster: Text, claim: Text },
    /// A machine ran for long although no NodeClaim stood for it, and nobody drained it.
    Unclaimed { cluster: Text, instance: Text },
    /// A process called the cloud for a cluster whose lease another one held.
    FencedCall { cluster: Text, what: String },
    /// The store took a write under an epoch that was over.
    LateWrite { cluster: Text },
    /// A launch or a removal was decided although the fleet was frozen.
    DecidedFrozen { cluster: Text },
    /// An instruction was carried out under an epoch that was over.
    OldEpoch { cluster: Text, instruction: Text, epoch: u64, highest: u64 },
    /// Two processes spoke in one epoch.
    TwoOwners { cluster: Text, epoch: u64 },
    /// NodeClaims of a pool hold more than its limits allow.
    OverLimit { cluster: Text, pool: Text },
    /// More nodes left at one time than the pool's budget allows.
    OverBudget { cluster: Text, claims: Vec<Text> },
    /// A pod was evicted although its PodDisruptionBudget had nothing to spare.
    PodBudgetBroken { cluster: Text },
    /// More machines came, or went, within a while than may.
    OverCap { cluster: Text, what: &'static str },
    /// A removal was decided by a process whose launches failed.
    RemovedWhileFailing { cluster: Text },
    /// A removal was decided by a process that had heard how launches of others failed.
    RemovedWhileOthersFail { cluster: Text },
    /// A NodeClaim was removed while its machine ran on.
    Orphaned { cluster: Text, claim: Text },
    /// A NodeClaim was removed, with its Node, while pods ran on its machine.
    RemovedInUse { cluster: Text, claim: Text },
    /// A machine was given back while pods ran on it that nobody had evicted.
    GivenBackInUse { cluster: Text, claim: Text },
    /// A node began to be drained while pods ran on it, and nobody had asked for that.
    DrainedInUse { cluster: Text, claim: Text },
    /// Something happens again and again without time passing.
    Stuck { at: Timestamp },
    /// At rest: a pod does not run.
    NeverRan { cluster: Text, pod: String },
    /// At rest: a machine is paid for that no NodeClaim stands for.
    Leaked { cluster: Text, instance: Text },
    /// At rest: a NodeClaim stands for no machine.
    Hollow { cluster: Text, claim: Text },
    /// At rest: a node is empty and stays.
    StillEmpty { cluster: Text, node: Text },
    /// Nodes are empty and none of them leaves.
    EmptyTooLong { cluster: Text, nodes: Vec<Text> },
    /// At rest: instructions wait for an answer.
    Unanswered { cluster: Text, instructions: usize },
    /// At rest: nobody decides for a cluster.
    Unowned { cluster: Text },
}

impl Violation {
    /// The invariant, in a word.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::LaunchBeforeClaim { .. } => "LaunchBeforeClaim",
            Self::LaunchedTwice { .. } => "LaunchedTwice",
            Self::Unclaimed { .. } => "Unclaimed",
            Self::FencedCall { .. } => "FencedCall",
            Self::LateWrite { .. } => "LateWrite",
            Self::DecidedFrozen { .. } => "DecidedFrozen",
            Self::OldEpoch { .. } => "OldEpoch",
            Self::TwoOwners { .. } => "TwoOwners",
            Self::OverLimit { .. } => "OverLimit",
            Self::OverBudget { .. } => "OverBudget",
            Self::PodBudgetBroken { .. } => "PodBudgetBroken",
            Self::OverCap { .. } => "OverCap",
            Self::RemovedWhileFailing { .. } => "RemovedWhileFailing",
            Self::RemovedWhileOthersFail { .. } => "RemovedWhileOthersFail",
            Self::Orphaned { .. } => "Orphaned",
            Self::RemovedInUse { .. } => "RemovedInUse",
            Self::GivenBackInUse { .. } => "GivenBackInUse",
            Self::DrainedInUse { .. } => "DrainedInUse",
            Self::Stuck { .. } => "Stuck",
            Self::NeverRan { .. } => "NeverRan",
            Self::Leaked { .. } => "Leaked",
            Self::Hollow { .. } => "Hollow",
            Self::StillEmpty { .. } => "StillEmpty",
            Self::EmptyTooLong { .. } => "EmptyTooLong",
            Self::Unanswered { .. } => "Unanswered",
            Self::Unowned { .. } => "Unowned",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LaunchBeforeClaim { cluster, claim } => {
                write!(f, "a machine was ordered for {cluster}/{claim}, which is no NodeClaim of that cluster")
            }
            Self::LaunchedTwice { cluster, claim } => write!(f, "two machines were sold for {cluster}/{claim}"),
            Self::Unclaimed { cluster, instance } => {
                write!(
                    f,
                    "{instance} of {cluster} has run for {} min without a NodeClaim or a drain",
                    COLLECTED_MS / 60_000
                )
            }
            Self::FencedCall { cluster, what } => {
                write!(f, "a process that another one has replaced in {cluster} asked the cloud to {what}")
            }
            Self::LateWrite { cluster } => {
                write!(f, "the store took what a process wrote for {cluster} after another one had replaced it")
            }
            Self::DecidedFrozen { cluster } => {
                write!(f, "a launch or a removal was decided in {cluster} although the fleet was frozen")
            }
            Self::OldEpoch { cluster, instruction, epoch, highest } => {
                write!(f, "{cluster} carried out {instruction} of epoch {epoch} after one of epoch {highest}")
            }
            Self::TwoOwners { cluster, epoch } => write!(f, "two processes spoke to {cluster} in epoch {epoch}"),
            Self::OverLimit { cluster, pool } => write!(f, "NodePool {pool} of {cluster} is over its limits"),
            Self::OverBudget { cluster, claims } => {
                write!(f, "{} of {cluster} leave at one time, and the budget allows {BUDGET}", claims.join(" and "))
            }
            Self::PodBudgetBroken { cluster } => {
                write!(f, "a pod in {cluster} was evicted although its budget had nothing to spare")
            }
            Self::OverCap { cluster, what } => {
                write!(f, "more machines {what} in {cluster} within a while than may")
            }
            Self::RemovedWhileFailing { cluster } => {
                write!(f, "a removal was decided in {cluster} by a process whose launches fail")
            }
            Self::RemovedWhileOthersFail { cluster } => {
                write!(f, "a removal was decided in {cluster} by a process that had heard how launches of others fail")
            }
            Self::Orphaned { cluster, claim } => {
                write!(f, "NodeClaim {claim} of {cluster} was removed while its machine ran on")
            }
            Self::RemovedInUse { cluster, claim } => {
                write!(f, "NodeClaim {claim} of {cluster} was removed while pods ran on its machine")
            }
            Self::GivenBackInUse { cluster, claim } => {
                write!(f, "the machine of {cluster}/{claim} was given back while pods ran on it")
            }
            Self::DrainedInUse { cluster, claim } => {
                write!(f, "the node of {cluster}/{claim} is drained while pods run on it, and nobody asked for that")
            }
            Self::Stuck { at } => write!(f, "time does not get past {} ms", at.0),
            Self::NeverRan { cluster, pod } => write!(f, "{pod} in {cluster} does not run"),
            Self::Leaked { cluster, instance } => write!(f, "{instance} of {cluster} is left without a NodeClaim"),
            Self::Hollow { cluster, claim } => write!(f, "NodeClaim {claim} of {cluster} is left without a machine"),
            Self::StillEmpty { cluster, node } => write!(f, "{node} in {cluster} is empty and stays"),
            Self::EmptyTooLong { cluster, nodes } => {
                write!(f, "{} of {cluster} are empty and none of them leaves", nodes.join(" and "))
            }
            Self::Unanswered { cluster, instructions } => {
                write!(f, "{instructions} instructions to {cluster} are not answered")
            }
            Self::Unowned { cluster } => write!(f, "nobody decides for {cluster}"),
        }
    }
}

/// What is remembered from step to step.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Machines sold when limits were last looked at.
    sold: usize,
    /// When machines were sold, by cluster; looked at only where there are bounds.
    sales: BTreeMap<Text, Vec<Timestamp>>,
    /// NodeClaims that a machine was ordered for while they were there: cluster and name.
    asked: BTreeSet<(Text, Text)>,
    /// Since when machines have been seen without a NodeClaim and without a drain.
    unclaimed: BTreeMap<Text, Timestamp>,
    /// Since when clusters have had empty nodes of which none left; looked at only where there is a bound.
    empty: BTreeMap<Text, Timestamp>,
}

impl Simulation {
    /// Looks at everything that a step may have broken; now and then also at what breaks with time.
    pub(super) fn check(&mut self, looks: bool) {
        let calls = std::mem::take(&mut self.stage.outside.books().calls);
        for call in calls {
            let found = self.judge_call(&call);
            self.violations.extend(found);
            self.remember_order(call);
        }
        let late = std::mem::take(&mut self.stage.outside.books().late_writes);
        self.violations.extend(late.into_iter().map(|cluster| Violation::LateWrite { cluster }));
        let frozen = std::mem::take(&mut self.stage.outside.books().decided_frozen);
        self.violations.extend(frozen.into_iter().map(|cluster| Violation::DecidedFrozen { cluster }));
        let failing = std::mem::take(&mut self.stage.outside.books().removed_failing);
        self.violations.extend(failing.into_iter().map(|cluster| Violation::RemovedWhileFailing { cluster }));
        let elsewhere = std::mem::take(&mut self.stage.outside.books().removed_failing_elsewhere);
        self.violations.extend(elsewhere.into_iter().map(|cluster| Violation::RemovedWhileOthersFail { cluster }));
        let sold = self.stage.outside.cloud().book().sold();
        if sold != self.memory.sold {
            self.note_sales(sold - self.memory.sold);
            self.memory.sold = sold;
            let doubles = self.stage.outside.cloud().book().doubles();
            let twice = |(cluster, claim)| Violation::LaunchedTwice { cluster, claim };
            self.violations.extend(doubles.into_iter().map(twice));
            let over: Vec<Violation> = self.sites.iter().flat_map(|site| self.over_limit(site)).collect();
            self.violations.extend(over);
        }
        for site in &mut self.sites {
            self.violations.extend(of_site(site));
        }
        if looks {
            self.look_for_unclaimed();
            self.look_for_empty();
            let over = self.caps.map(|caps| self.over_caps(caps));
            self.violations.extend(over.into_iter().flatten());
        }
    }

    /// Where there are bounds there is one cluster, so that every machine was sold to it.
    fn note_sales(&mut self, count: usize) {
        let (Some(_), Some(site)) = (self.caps, self.sites.first()) else { return };
        let now = self.stage.now();
        self.memory.sales.entry(site.name.clone()).or_default().extend(std::iter::repeat_n(now, count));
    }

    /// Machines that came or went too fast.
    fn over_caps(&self, caps: Caps) -> Vec<Violation> {
        let now = self.stage.now();
        let lately =
            |moments: &[Timestamp]| moments.iter().filter(|moment| now.millis_since(**moment) < caps.window_ms).count();
        let mut over = Vec::new();
        for site in &self.sites {
            let came = self.memory.sales.get(&site.name).map_or(0, |sales| lately(sales));
            if came > caps.launches {
                over.push(Violation::OverCap { cluster: site.name.clone(), what: "came" });
            }
            if lately(&site.book.drains) > caps.removals {
                over.push(Violation::OverCap { cluster: site.name.clone(), what: "went" });
            }
        }
        over
    }

    /// Pools that hold more than their limits allow. What is leaving takes nothing from a limit (Karpenter: limits less the
    /// capacity of active nodes), so that a machine which the cloud takes back may be replaced at once.
    fn over_limit(&self, site: &Site) -> Vec<Violation> {
        let cloud = self.stage.outside.cloud();
        let stays = |entry: &&LedgerEntry| entry.interrupted.is_none() && is_up(&cloud, entry);
        let staying: BTreeSet<&Text> =
            cloud.book().alive().filter(stays).map(|entry| &entry.instance.provider_id).collect();
        let mut over = Vec::new();
        for record in &site.pools {
            let mut used = Resources::new();
            let counts = |claim: &&ClaimRecord| {
                claim.pool == record.pool.name
                    && staying.contains(&claim.provider_id)
                    && !site.cluster.is_draining(&claim.name)
            };
            for claim in site.cluster.claims().filter(counts) {
                used.add(&claim.capacity);
                used.add(&Resources::from_iter([(NODES, 1)]));
            }
            if record.pool.limits.iter().any(|(name, limit)| used.get(name) > limit) {
                over.push(Violation::OverLimit { cluster: site.name.clone(), pool: record.pool.name.clone() });
            }
        }
        over
    }

    fn judge_call(&self, call: &CloudCall) -> Vec<Violation> {
        let mut found = Vec::new();
        let cluster = call.cluster.clone();
        let held = self.stage.outside.books().held.get(&cluster).copied();
        if held.is_some_and(|held| held.by != call.by) {
            found.push(Violation::FencedCall { cluster: cluster.clone(), what: spelled(&call.what) });
        }
        let Some(site) = self.sites.iter().find(|site| site.name == cluster) else { return found };
        match &call.what {
            Act::Launch { claim } => {
                if !site.has_claim(claim) && !self.may_ask_about_taken(site, claim) {
                    found.push(Violation::LaunchBeforeClaim { cluster, claim: claim.clone() });
                }
            }
            Act::Terminate { id } => {
                let cloud = self.stage.outside.cloud();
                let entry = cloud.book().alive().find(|entry| entry.instance.id == *id && entry.interrupted.is_none());
                let Some(entry) = entry.filter(|entry| is_up(&cloud, entry)) else { return found };
                let claim = entry.instance.claim.clone();
                if site.cluster.running_on(&entry.instance.provider_id).next().is_some() {
                    found.push(Violation::GivenBackInUse { cluster, claim });
                }
            }
        }
        found
    }

    /// Whether a machine may be ordered for a NodeClaim that was taken away: whoever ordered one before has to ask what came of
    /// it, with the same token, and whoever has just made the NodeClaim cannot know.
    fn may_ask_about_taken(&self, site: &Site, claim: &Text) -> bool {
        let Some(at) = site.book.taken.get(claim) else { return false };
        let asked = self.memory.asked.contains(&(site.name.clone(), claim.clone()));
        asked || self.stage.now().millis_since(*at) < UNHEARD_MS
    }

    fn remember_order(&mut self, call: CloudCall) {
        let Act::Launch { claim } = call.what else { return };
        if self.sites.iter().any(|site| site.name == call.cluster && site.has_claim(&claim)) {
            self.memory.asked.insert((call.cluster, claim));
        }
    }

    /// One machine may leave at a time; the others wait for their turn.
    fn look_for_empty(&mut self) {
        let Some(bound_ms) = self.empty_for_ms else { return };
        let now = self.stage.now();
        for site in &self.sites {
            let nodes: Vec<Text> = site.cluster.empty_nodes().cloned().collect();
            let leaves = site.cluster.claims().any(|claim| site.cluster.is_draining(&claim.name));
            if nodes.is_empty() || leaves {
                self.memory.empty.remove(&site.name);
                continue;
            }
            let since = *self.memory.empty.entry(site.name.clone()).or_insert(now);
            if now.millis_since(since) >= bound_ms {
                self.violations.insert(Violation::EmptyTooLong { cluster: site.name.clone(), nodes });
            }
        }
    }

    /// A drain takes as long as PodDisruptionBudgets make it; that it ends at all is looked at when everything is at rest.
    fn look_for_unclaimed(&mut self) {
        let now = self.stage.now();
        let mut unclaimed = self.unclaimed();
        unclaimed.retain(|(cluster, instance)| !self.is_being_drained(cluster, instance));
        self.memory.unclaimed.retain(|id, _| unclaimed.iter().any(|(_, instance)| instance == id));
        for (cluster, instance) in unclaimed {
            let since = *self.memory.unclaimed.entry(instance.clone()).or_insert(now);
            if now.millis_since(since) >= COLLECTED_MS {
                self.violations.insert(Violation::Unclaimed { cluster, instance });
            }
        }
    }

    /// Whether pods are being evicted from a machine.
    fn is_being_drained(&self, cluster: &Text, instance: &Text) -> bool {
        let cloud = self.stage.outside.cloud();
        let Ok(known) = cloud.describe(instance) else { return false };
        let site = self.sites.iter().find(|site| site.name == *cluster);
        site.is_some_and(|site| {
            let pods_left = site.cluster.running_on(&known.provider_id).next().is_some();
            pods_left && site.cluster.is_machine_draining(&known.provider_id)
        })
    }

    /// Machines that nobody is ending and no NodeClaim stands for: cluster and instance.
    fn unclaimed(&self) -> Vec<(Text, Text)> {
        let cloud = self.stage.outside.cloud();
        let mut found = Vec::new();
        for entry in cloud.book().alive().filter(|entry| is_up(&cloud, entry)) {
            let instance = &entry.instance;
            let site = self.sites.iter().find(|site| site.name == instance.cluster);
            if site.is_none_or(|site| site.cluster.claims().all(|claim| claim.name != instance.claim)) {
                found.push((instance.cluster.clone(), instance.id.clone()));
            }
        }
        found
    }

    /// What is not at rest.
    pub(super) fn unrest(&self) -> BTreeSet<Violation> {
        let leaked = self.unclaimed().into_iter().map(|(cluster, instance)| Violation::Leaked { cluster, instance });
        let mut unrest: BTreeSet<Violation> = leaked.collect();
        for site in &self.sites {
            unrest.extend(self.unrest_of(site));
        }
        unrest
    }

    fn unrest_of(&self, site: &Site) -> Vec<Violation> {
        let cluster = &site.name;
        let mut unrest = Vec::new();
        let pods = site.cluster.pods().filter(|pod| pod.daemon.is_none() && pod.phase != PodPhase::Running);
        unrest.extend(pods.map(|pod| Violation::NeverRan { cluster: cluster.clone(), pod: pod.key.to_string() }));
        let empty = site.cluster.empty_nodes();
        unrest.extend(empty.map(|node| Violation::StillEmpty { cluster: cluster.clone(), node: node.clone() }));
        let alive: BTreeSet<Text> = {
            let cloud = self.stage.outside.cloud();
            cloud.book().alive().map(|entry| entry.instance.provider_id.clone()).collect()
        };
        let hollow = site.cluster.claims().filter(|claim| !alive.contains(&claim.provider_id));
        unrest.extend(hollow.map(|claim| Violation::Hollow { cluster: cluster.clone(), claim: claim.name.clone() }));
        let held = self.stage.outside.books().held.get(cluster).copied();
        let owner = held.and_then(|held| {
            let process = self.processes.get(held.by.process).filter(|process| process.me() == held.by)?;
            process.server.as_ref()?.sessions.get(cluster)
        });
        match owner {
            Some(session) if session.is_open() => {
                if session.waiting() > 0 {
                    let instructions = session.waiting();
                    unrest.push(Violation::Unanswered { cluster: cluster.clone(), instructions });
                }
            }
            _ => unrest.push(Violation::Unowned { cluster: cluster.clone() }),
        }
        unrest
    }
}

fn is_up(cloud: &cloud::simulated::SimulatedCloud, entry: &LedgerEntry) -> bool {
    cloud
        .describe(&entry.instance.id)
        .is_ok_and(|known| matches!(known.state, InstanceState::Pending | InstanceState::Running))
}

fn spelled(what: &Act) -> String {
    match what {
        Act::Launch { claim } => format!("launch a machine for {claim}"),
        Act::Terminate { id } => format!("terminate {id}"),
    }
}

/// What the book of a cluster shows.
fn of_site(site: &mut Site) -> Vec<Violation> {
    let cluster = &site.name;
    let old = site.book.outdated.drain(..).map(|(instruction, epoch, highest)| Violation::OldEpoch {
        cluster: cluster.clone(),
        instruction,
        epoch,
        highest,
    });
    let mut found: Vec<Violation> = old.collect();
    let orphaned = std::mem::take(&mut site.book.orphaned).into_iter();
    found.extend(orphaned.map(|claim| Violation::Orphaned { cluster: cluster.clone(), claim }));
    let used = std::mem::take(&mut site.book.drained_in_use).into_iter();
    found.extend(used.map(|claim| Violation::DrainedInUse { cluster: cluster.clone(), claim }));
    let in_use = std::mem::take(&mut site.book.removed_in_use).into_iter();
    found.extend(in_use.map(|claim| Violation::RemovedInUse { cluster: cluster.clone(), claim }));
    let two = site.book.owners.iter().filter(|(_, owners)| owners.len() > 1);
    found.extend(two.map(|(epoch, _)| Violation::TwoOwners { cluster: cluster.clone(), epoch: *epoch }));
    if site.cluster.book().budgets_broken > 0 {
        found.push(Violation::PodBudgetBroken { cluster: cluster.clone() });
    }
    if site.book.leaving.len() > BUDGET as usize {
        let has_node = |claim: &Text| site.cluster.has_node_for(claim);
        site.book.leaving.retain(has_node);
        if site.book.leaving.len() > BUDGET as usize {
            let claims = site.book.leaving.iter().cloned().collect();
            found.push(Violation::OverBudget { cluster: cluster.clone(), claims });
        }
    }
    found
}
