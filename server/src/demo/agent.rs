//! A simulated cluster behind the agent's port: what an API server would be to a real agent.
//!
//! The simulation is a state machine on somebody else's clock; [`SimulatedApi::drive`] gives it this machine's clock. What
//! it shows goes to the agent as a watch would tell it, what the agent is told comes back as instructions.

pub(crate) mod decode;
pub(crate) mod encode;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::{Cluster, ClusterError, Done, Identity, Observed, Seen};
use engine::cluster::{ClusterSnapshot, Key, Object, Observation};
use engine::model::Text;
use fleetwright_proto::v1;
use simulator::SimulatedCluster;
use simulator::cluster::{Answer, Change};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock;

/// Batches of changes that the agent may be behind. An agent that is further behind takes a picture again.
const CHANGES_BEHIND: usize = 4096;

/// The simulation moves at least this often, so that a clock that was set does not stop it.
const STEP: Duration = Duration::from_secs(1);

/// A simulated cluster, as its agent meets it.
pub(crate) struct SimulatedApi {
    name: String,
    world: Mutex<World>,
    /// Something was done to the simulation that it must tell of.
    moved: Notify,
}

struct World {
    cluster: SimulatedCluster,
    /// NodePools and NodeClasses, which the simulation does not know.
    manifests: Vec<v1::ManifestRecord>,
    /// Conditions of NodeClaims, which the simulation does not know either; they are shown in pictures. Those that are alike
    /// are kept once.
    conditions: BTreeMap<Text, Arc<[v1::Condition]>>,
    watcher: Option<mpsc::Sender<Vec<Seen>>>,
    /// Who waits for the end of which drain.
    drains: BTreeMap<Text, Vec<oneshot::Sender<()>>>,
    highest_epoch: u64,
}

impl SimulatedApi {
    pub(crate) fn new(name: &str, cluster: SimulatedCluster, manifests: Vec<v1::ManifestRecord>) -> Self {
        let (conditions, drains) = (BTreeMap::new(), BTreeMap::new());
        let world = World { cluster, manifests, conditions, watcher: None, drains, highest_epoch: 0 };
        Self { name: name.to_owned(), world: Mutex::new(world), moved: Notify::new() }
    }

    /// Every change is made in one step, so a poisoned lock guards a whole world.
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the simulation or changes it; what follows is told to the agent.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut SimulatedCluster) -> T) -> T {
        let result = act(&mut self.world().cluster);
        self.moved.notify_one();
        result
    }

    /// Lets the simulation live, for ever.
    pub(crate) async fn drive(&self) {
        loop {
            let next = self.world().step();
            let wait = next.map_or(STEP, |at| Duration::from_millis(at.millis_since(clock::now()).unsigned_abs()));
            tokio::select! {
                () = tokio::time::sleep(wait.min(STEP)) => {}
                () = self.moved.notified() => {}
            }
        }
    }
}

impl World {
    /// Everything that is due happens and is told; says when something is due next.
    fn step(&mut self) -> Option<engine::model::Timestamp> {
        let changes = self.cluster.tick(clock::now());
        let seen: Vec<Seen> = changes.into_iter().filter_map(|change| self.tell(change)).collect();
        if let Some(watcher) = self.watcher.take_if(|_| !seen.is_empty())
            && watcher.try_send(seen).is_ok()
        {
            self.watcher = Some(watcher);
        }
        self.cluster.next_event()
    }

    fn tell(&mut self, change: Change) -> Option<Seen> {
        match change {
            Change::Drained { claim } => {
                for waiting in self.drains.remove(&claim).into_iter().flatten() {
                    // Whoever waited may have been stopped.
                    let _gone = waiting.send(());
                }
                None
            }
            Change::Observed(Observation::Upsert(object)) => encode::object(&object),
            Change::Observed(Observation::Delete(key)) => {
                if let Key::Claim(name) = &key {
                    self.conditions.remove(name);
                }
                Some(encode::removal(&key))
            }
            Change::Observed(Observation::Snapshot(_)) => None,
        }
    }

    fn picture(&mut self) -> Vec<Seen> {
        let ClusterSnapshot { pods, nodes, claims, daemons, namespaces, .. } = self.cluster.snapshot();
        let objects = namespaces.into_iter().map(Object::Namespace);
        let objects = objects.chain(daemons.into_iter().map(Object::Daemon));
        let objects = objects.chain(nodes.into_iter().map(Object::Node)).chain(pods.into_iter().map(Object::Pod));
        let claims = claims.iter().map(|claim| {
            let conditions = self.conditions.get(&claim.name).map(|all| all.to_vec()).unwrap_or_default();
            Seen::plain(v1::change::Change::NodeClaim(encode::claim(claim, conditions)))
        });
        let manifests = self.manifests.iter().cloned().map(v1::change::Change::Manifest).map(Seen::plain);
        let mut encoder = encode::Encoder::default();
        manifests.chain(claims).chain(objects.filter_map(|object| encoder.object(&object))).collect()
    }

    fn describe(&mut self, claim: Text, conditions: Vec<v1::Condition>) {
        let known = self.conditions.values().find(|known| ***known == *conditions).cloned();
        self.conditions.insert(claim, known.unwrap_or_else(|| conditions.into()));
    }
}

impl Cluster for SimulatedApi {
    fn identity(&self) -> Identity {
        Identity { uid: format!("simulated-{}", self.name), kubernetes_version: "v1.35.0".to_owned() }
    }

    async fn observe(&self) -> Result<Observed, ClusterError> {
        let mut world = self.world();
        world.step();
        let (watcher, changes) = mpsc::channel(CHANGES_BEHIND);
        let records = world.picture();
        world.watcher = Some(watcher);
        drop(world);
        self.moved.notify_one();
        Ok(Observed { records, changes })
    }

    async fn carry_out(&self, instruction: v1::Instruction) -> Done {
        if decode::only_tells(&instruction) {
            if let Some((claim, conditions)) = decode::conditions(&instruction) {
                self.world().describe(claim, conditions);
            }
            if let Some((claim, at)) = decode::pod_event(&instruction) {
                self.world().cluster.note_pod_event(&claim, at);
            }
            return Done::well();
        }
        let instruction = match decode::instruction(instruction) {
            Ok(Some(instruction)) => instruction,
            Ok(None) => {
                return Done::not(v1::Outcome::Unsupported, "the simulated cluster does not know this instruction");
            }
            Err(reason) => return Done::not(v1::Outcome::Failed, reason),
        };
        let (told, drained) = oneshot::channel();
        {
            let mut world = self.world();
            match world.cluster.instruct(&instruction, clock::now()) {
                Err(reason) => return Done::not(v1::Outcome::NotFound, reason),
                Ok(Answer::Unmet(reason)) => return Done::not(v1::Outcome::PreconditionFailed, reason),
                Ok(Answer::Done) => drop(told),
                Ok(Answer::Later) => {
                    let claim = instruction.claim().cloned().unwrap_or_default();
                    world.drains.entry(claim).or_default().push(told);
                }
            }
        }
        self.moved.notify_one();
        // An answer that came at once dropped the other end.
        let _at_once = drained.await;
        Done::well()
    }

    async fn highest_epoch(&self) -> Result<u64, ClusterError> {
        Ok(self.world().highest_epoch)
    }

    async fn raise_epoch(&self, epoch: u64) -> Result<(), ClusterError> {
        let mut world = self.world();
        world.highest_epoch = world.highest_epoch.max(epoch);
        Ok(())
    }
}
