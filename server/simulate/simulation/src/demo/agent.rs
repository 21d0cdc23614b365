//! A simulated cluster behind the agent's port: the API server of a real agent's view.
//!
//! The simulated cluster is a state machine without a clock; [`SimulatedApi::drive`] runs it on
//! this machine's clock. Its changes reach the agent as a watch would send them; instructions
//! arrive through the agent.

pub mod decode;
pub mod encode;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::kube::SimulatedCluster;
use crate::kube::cluster::{Answer, Change};
use agent::config::Credentials;
use agent::{Cluster, ClusterError, Done, Identity, ListWatch, Record, Target};
use cluster::{ClusterSnapshot, Key, Object, Observation};
use fleetwright_proto::v1;
use model::{ClaimName, ClusterName, ProviderId};
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};

use super::plan::REGION;
use store::clock;

/// Batches of changes that the agent may lag behind. An agent that lags further takes a new
/// snapshot.
const CHANGES_BEHIND: usize = 4096;

/// Maximum interval between two steps, so that setting the clock does not stall the simulation.
const STEP: Duration = Duration::from_secs(1);

/// What nodes would verify the API server by; no node of a simulated cluster does.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nc2ltdWxhdGVk\n-----END CERTIFICATE-----\n";

/// A simulated cluster as an agent's [`Cluster`].
pub struct SimulatedApi {
    name: ClusterName,
    state: Mutex<State>,
    /// Wakes [`SimulatedApi::drive`] after a change.
    changed: Notify,
}

struct State {
    cluster: SimulatedCluster,
    /// NodePools and EC2NodeClasses, which the simulated cluster does not store.
    manifests: Vec<v1::ManifestRecord>,
    /// Conditions of NodeClaims, which the simulated cluster does not store either; they are part
    /// of snapshots. Equal lists are shared.
    conditions: BTreeMap<ClaimName, Arc<[v1::Condition]>>,
    watcher: Option<mpsc::Sender<Vec<Record>>>,
    /// Waiters for the end of a drain, by NodeClaim.
    drains: BTreeMap<ClaimName, Vec<oneshot::Sender<()>>>,
    highest_epoch: u64,
}

impl SimulatedApi {
    /// A cluster with these NodePools and EC2NodeClasses.
    pub fn new(name: &ClusterName, cluster: SimulatedCluster, manifests: Vec<v1::ManifestRecord>) -> Self {
        let (conditions, drains) = (BTreeMap::new(), BTreeMap::new());
        let state = State { cluster, manifests, conditions, watcher: None, drains, highest_epoch: 0 };
        Self { name: name.clone(), state: Mutex::new(state), changed: Notify::new() }
    }

    /// Every critical section leaves a consistent state, so a poisoned lock guards one.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the simulated cluster; the agent receives the changes.
    pub fn with<T>(&self, act: impl FnOnce(&mut SimulatedCluster) -> T) -> T {
        let result = act(&mut self.state().cluster);
        self.changed.notify_one();
        result
    }

    /// The NodePool or EC2NodeClass of this name, with the status that the agent has written into an EC2NodeClass.
    pub fn manifest(&self, kind: v1::ObjectKind, name: &str) -> Option<Value> {
        let state = self.state();
        let found = state.manifests.iter().find(|one| one.kind() == kind && one.name == name)?;
        serde_json::from_slice(&found.json).ok()
    }

    /// Changes the NodePool or EC2NodeClass of this name as a user does; the agent receives it.
    pub fn change_manifest(&self, kind: v1::ObjectKind, name: &str, change: impl FnOnce(&mut Value)) {
        self.state().change_manifest(kind, name, |object| {
            change(object);
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = (generation + 1).into();
        });
    }

    /// The conditions that the server has written into a NodeClaim.
    pub fn conditions(&self, claim: &ClaimName) -> Vec<v1::Condition> {
        self.state().conditions.get(claim).map(|conditions| conditions.to_vec()).unwrap_or_default()
    }

    /// Runs the simulation, and an agent that connects to `server` without credentials, forever.
    pub async fn run_with_agent(self: Arc<Self>, server: String, seed: u64) {
        let target = Target {
            server,
            credentials: Credentials::default(),
            cluster_name: self.name.to_string(),
            region: REGION.to_owned(),
            karpenter_absent: false,
            seed,
        };
        tokio::select! {
            () = self.drive() => {}
            _never = agent::run(Arc::clone(&self), target, std::future::pending()) => {}
        }
    }

    /// The NodeClaims whose instance was launched, with its provider id.
    pub(crate) fn launched_claims(&self) -> Vec<((ClusterName, ClaimName), ProviderId)> {
        self.with(|cluster| {
            let launched = cluster.claims().filter(|claim| !claim.provider_id.is_empty());
            launched.map(|claim| ((self.name.clone(), claim.name.clone()), claim.provider_id.clone())).collect()
        })
    }

    pub async fn drive(&self) {
        loop {
            let next = self.state().step();
            let wait = next.map_or(STEP, |at| clock::duration(at.duration_since(clock::now())));
            tokio::select! {
                () = tokio::time::sleep(wait.min(STEP)) => {}
                () = self.changed.notified() => {}
            }
        }
    }
}

impl State {
    /// Handles due events and sends the changes; returns when the next event is due.
    fn step(&mut self) -> Option<model::Timestamp> {
        let changes = self.cluster.tick(clock::now());
        let seen: Vec<Record> = changes.into_iter().filter_map(|change| self.convert(change)).collect();
        if let Some(watcher) = self.watcher.take_if(|_| !seen.is_empty())
            && watcher.try_send(seen).is_ok()
        {
            self.watcher = Some(watcher);
        }
        self.cluster.next_event()
    }

    fn convert(&mut self, change: Change) -> Option<Record> {
        match change {
            Change::Drained { claim } => {
                for waiting in self.drains.remove(&claim).into_iter().flatten() {
                    // The waiter may have been cancelled.
                    let _gone = waiting.send(());
                }
                None
            }
            Change::Observed(Observation::Upsert(object)) => encode::object(&self.cluster, &object),
            Change::Observed(Observation::Delete(key)) => {
                if let Key::Claim(name) = &key {
                    self.conditions.remove(name);
                }
                Some(encode::removal(&key))
            }
            Change::Observed(Observation::Snapshot(_)) => None,
        }
    }

    fn snapshot_records(&mut self) -> Vec<Record> {
        let ClusterSnapshot { pods, nodes, claims, daemons, namespaces, .. } = self.cluster.snapshot();
        let objects = namespaces.into_iter().map(Object::Namespace);
        let objects = objects.chain(daemons.into_iter().map(Object::Daemon));
        let objects = objects.chain(nodes.into_iter().map(Object::Node)).chain(pods.into_iter().map(Object::Pod));
        let claims = claims.iter().map(|claim| {
            let conditions = self.conditions.get(&claim.name).map(|all| all.to_vec()).unwrap_or_default();
            Record::plain(v1::change::Change::NodeClaim(Box::new(encode::claim(claim, conditions))))
        });
        let manifests = self.manifests.iter().cloned().map(v1::change::Change::Manifest).map(Record::plain);
        let mut encoder = encode::Encoder::default();
        manifests.chain(claims).chain(objects.filter_map(|object| encoder.object(&self.cluster, &object))).collect()
    }

    /// Writes the status of an EC2NodeClass.
    fn write_node_class(&mut self, written: decode::WrittenStatus) {
        let name = written.name.clone();
        self.change_manifest(v1::ObjectKind::Ec2NodeClass, &name, |object| written.apply(object));
    }

    /// Changes an object, and sends it to the agent.
    fn change_manifest(&mut self, kind: v1::ObjectKind, name: &str, change: impl FnOnce(&mut Value)) {
        let is_changed = |one: &&mut v1::ManifestRecord| one.kind() == kind && one.name == name;
        let Some(manifest) = self.manifests.iter_mut().find(is_changed) else { return };
        let Ok(mut object) = serde_json::from_slice::<Value>(&manifest.json) else { return };
        change(&mut object);
        manifest.json = object.to_string().into_bytes();
        let version: u64 = manifest.resource_version.parse().unwrap_or(0);
        manifest.resource_version = (version + 1).to_string();
        let changed = Record::plain(v1::change::Change::Manifest(manifest.clone()));
        if let Some(watcher) = self.watcher.take()
            && watcher.try_send(vec![changed]).is_ok()
        {
            self.watcher = Some(watcher);
        }
    }

    fn set_conditions(&mut self, claim: ClaimName, conditions: Vec<v1::Condition>) {
        let known = self.conditions.values().find(|known| ***known == *conditions).cloned();
        self.conditions.insert(claim, known.unwrap_or_else(|| conditions.into()));
    }
}

impl Cluster for SimulatedApi {
    fn identity(&self) -> Identity {
        Identity { uid: format!("simulated-{}", self.name), kubernetes_version: "v1.35.0".to_owned() }
    }

    async fn facts(&self) -> Option<v1::ClusterFacts> {
        Some(v1::ClusterFacts {
            api_endpoint: "https://simulated.invalid".to_owned(),
            certificate_authority: CERTIFICATE.as_bytes().to_vec(),
            service_cidr: "10.100.0.0/16".to_owned(),
            dns_addresses: vec!["10.100.0.10".to_owned()],
        })
    }

    async fn list_and_watch(&self) -> Result<ListWatch, ClusterError> {
        let mut state = self.state();
        state.step();
        let (watcher, changes) = mpsc::channel(CHANGES_BEHIND);
        let records = state.snapshot_records();
        state.watcher = Some(watcher);
        drop(state);
        self.changed.notify_one();
        Ok(ListWatch { records, changes })
    }

    async fn execute_instruction(&self, instruction: v1::Instruction) -> Done {
        if decode::only_tells(&instruction) {
            if let Some(written) = decode::node_class_status(&instruction) {
                self.state().write_node_class(written);
            }
            if let Some((claim, conditions)) = decode::conditions(&instruction) {
                self.state().set_conditions(claim, conditions);
            }
            if let Some((claim, hash)) = decode::class_hash(&instruction) {
                self.with(|cluster| cluster.record_class_hash(&claim, hash));
            }
            if let Some((claim, at)) = decode::pod_event(&instruction) {
                self.state().cluster.record_pod_event_time(&claim, at);
            }
            return Done::ok();
        }
        let instruction = match decode::instruction(instruction) {
            Ok(Some(instruction)) => instruction,
            Ok(None) => {
                return Done::failed(
                    v1::Outcome::Unsupported,
                    "the simulated cluster does not support this instruction",
                );
            }
            Err(reason) => return Done::failed(v1::Outcome::Failed, reason),
        };
        let (done_sender, drained) = oneshot::channel();
        {
            let mut state = self.state();
            match state.cluster.instruct(&instruction, clock::now()) {
                Err(reason) => return Done::failed(v1::Outcome::NotFound, reason),
                Ok(Answer::Unmet(reason)) => return Done::failed(v1::Outcome::PreconditionFailed, reason),
                Ok(Answer::Done) => drop(done_sender),
                Ok(Answer::Later) => {
                    let claim = instruction.claim().cloned().unwrap_or_default();
                    state.drains.entry(claim).or_default().push(done_sender);
                }
            }
        }
        self.changed.notify_one();
        // For an immediate answer the sender was dropped.
        let _at_once = drained.await;
        Done::ok()
    }

    async fn highest_epoch(&self) -> Result<u64, ClusterError> {
        Ok(self.state().highest_epoch)
    }

    async fn raise_epoch(&self, epoch: u64) -> Result<(), ClusterError> {
        let mut state = self.state();
        state.highest_epoch = state.highest_epoch.max(epoch);
        Ok(())
    }
}
