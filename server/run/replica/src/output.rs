//! Outputs of a replica.

use controller::{Instruction, InstructionId, PlanJob};
use model::{ClusterName, Text, Timestamp};

use super::call::Call;

/// An action that the surrounding loop carries out.
#[derive(Debug)]
pub enum Output {
    /// Call the store or the cloud.
    Call(Call),
    /// Make a plan, which may take long; answered by [`Event::Planned`](controller::Event::Planned).
    Plan(Box<PlanJob>),
    Accept {
        cluster: ClusterName,
        epoch: u64,
    },
    Refuse {
        cluster: ClusterName,
        reason: String,
    },
    /// Send an instruction to the agent.
    Instruct {
        cluster: ClusterName,
        id: InstructionId,
        instruction: Box<Instruction>,
        deadline: Timestamp,
    },
    /// Request a snapshot from the agent.
    Resync {
        cluster: ClusterName,
        reason: Text,
    },
    /// The published view of this cluster is outdated.
    PublishView(ClusterName),
}
