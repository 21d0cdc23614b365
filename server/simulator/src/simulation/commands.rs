//! Carries out commands, with latency in both directions.

use cloud::provider::{CloudError, InstanceState, LaunchOutcome, LaunchRequest, Owner};
use engine::control::{Inspection, Instruction, LaunchOrder};
use engine::model::Text;
use executor::{Command, CommandId, Outcome};

use super::{SimEvent, Simulation, Violation};
use crate::cluster::Answer;

/// Latency to the store in one direction: minimum and maximum, in milliseconds.
const STORE_MS: (i64, i64) = (1, 15);
/// Latency to the cloud in one direction.
const CLOUD_MS: (i64, i64) = (20, 600);
/// Latency to an agent in one direction.
const AGENT_MS: (i64, i64) = (2, 60);

impl Simulation {
    fn latency(&self, command: &Command) -> i64 {
        let rng = self.rng.child("latency").child_number(self.sequence);
        rng.between(match command {
            Command::RecordDecision(_)
            | Command::RecordLaunched { .. }
            | Command::CloseLaunch { .. }
            | Command::PersistCounts { .. } => STORE_MS,
            Command::Instruct { .. } => AGENT_MS,
            Command::Launch(_)
            | Command::Relaunch(_)
            | Command::Terminate { .. }
            | Command::Describe { .. }
            | Command::Inspect { .. } => CLOUD_MS,
        })
    }

    pub(super) fn send(&mut self, id: CommandId, command: Command) {
        let wait = self.latency(&command);
        self.schedule(wait, SimEvent::Arrive(id, command));
    }

    fn reply(&mut self, id: CommandId, command: &Command, outcome: Outcome) {
        let wait = self.latency(command);
        self.schedule(wait, SimEvent::Answer(id, outcome));
    }

    pub(super) fn execute(&mut self, id: CommandId, command: &Command) {
        let outcome = match command {
            Command::RecordDecision(_) => {
                self.decisions += 1;
                Some(Outcome::Done)
            }
            Command::Launch(order) => Some(self.launch(order)),
            Command::Relaunch(decided) => Some(self.launch(&decided.machine.launch)),
            Command::Describe { provider_id, .. } => Some(self.describe(provider_id)),
            Command::Inspect { cluster, cluster_uid, provider_id, .. } => {
                Some(Outcome::Found(self.inspect(Owner { cluster, uid: cluster_uid }, provider_id)))
            }
            Command::RecordLaunched { .. } | Command::CloseLaunch { .. } | Command::PersistCounts { .. } => {
                Some(Outcome::Done)
            }
            Command::Terminate { cluster, cluster_uid, provider_id, .. } => {
                Some(self.terminate(Owner { cluster, uid: cluster_uid }, provider_id))
            }
            Command::Instruct { cluster, instruction, .. } => self.instruct(id, cluster, instruction),
        };
        if let Some(outcome) = outcome {
            self.reply(id, command, outcome);
        }
    }

    fn launch(&mut self, order: &LaunchOrder) -> Outcome {
        let claimed = self.cluster(&order.cluster).is_some_and(|c| c.claims().any(|claim| claim.name == order.claim));
        if !claimed {
            let (cluster, claim) = (order.cluster.clone(), order.claim.clone());
            self.violations.insert(Violation::LaunchBeforeClaim { cluster, claim });
        }
        match self.cloud.launch(&LaunchRequest::from(order), self.now) {
            Ok(LaunchOutcome { instance, unavailable }) => Outcome::Launched {
                provider_id: instance.provider_id,
                instance_type: instance.instance_type,
                zone: instance.zone,
                capacity_type: instance.capacity_type,
                unavailable: unavailable.into_iter().map(|option| (option.instance_type, option.zone)).collect(),
            },
            Err(error) => match error.as_launch_failure() {
                Some(failure) => Outcome::LaunchFailed(failure),
                None => again(&error),
            },
        }
    }

    fn describe(&self, provider_id: &Text) -> Outcome {
        match self.cloud.describe(provider_id) {
            Ok(instance) => Outcome::Launched {
                provider_id: instance.provider_id.clone(),
                instance_type: instance.instance_type.clone(),
                zone: instance.zone.clone(),
                capacity_type: instance.capacity_type,
                unavailable: Vec::new(),
            },
            Err(_) => Outcome::Done,
        }
    }

    fn inspect(&self, owner: Owner<'_>, provider_id: &str) -> Inspection {
        match self.cloud.describe(provider_id) {
            Ok(instance) if instance.state == InstanceState::Terminated => Inspection::Ended,
            Ok(instance) if instance.owned_by(owner).is_err() => Inspection::Foreign,
            Ok(_) => Inspection::Runs,
            Err(_) => Inspection::Unknown,
        }
    }

    fn terminate(&mut self, owner: Owner<'_>, provider_id: &str) -> Outcome {
        match self.cloud.terminate_owned(owner, provider_id, self.now) {
            Ok(()) => Outcome::Begun,
            Err(CloudError::NotFound { .. }) => Outcome::Done,
            Err(foreign @ CloudError::Foreign { .. }) => Outcome::Refused(foreign.to_string()),
            Err(error) => again(&error),
        }
    }

    fn instruct(&mut self, id: CommandId, cluster: &Text, instruction: &Instruction) -> Option<Outcome> {
        let managed = self.clusters.get_mut(cluster)?;
        if !managed.connected {
            return Some(Outcome::TryAgain { after_ms: None, why: format!("the agent of {cluster} is not connected") });
        }
        match managed.cluster.instruct(instruction, self.now) {
            Ok(Answer::Done) => Some(Outcome::Done),
            Ok(Answer::Unmet(reason)) => Some(Outcome::Unmet(reason)),
            Ok(Answer::Later) => {
                let claim = instruction.claim()?.clone();
                self.drains.insert((cluster.clone(), claim), id);
                None
            }
            Err(reason) => Some(Outcome::Refused(reason)),
        }
    }
}

fn again(error: &CloudError) -> Outcome {
    let after_ms = match error {
        CloudError::RequestLimitExceeded { retry_after_ms } => Some(*retry_after_ms),
        _ => None,
    };
    Outcome::TryAgain { after_ms, why: error.to_string() }
}
