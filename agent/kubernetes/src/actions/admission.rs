//! The order of instructions on one NodeClaim: epoch and generation of the newest one are written
//! into an annotation of the claim, and an older instruction is refused.

use agent::Done;
use fleetwright_proto::v1;
use serde_json::{Value, json};

use crate::api::Api;
use crate::error::ApiError;
use crate::fields::text_at;
use crate::resource::NODE_CLAIM;

/// Annotation of a NodeClaim: epoch and generation of the newest instruction that was begun on it,
/// as `epoch/generation`.
pub const INSTRUCTION_ANNOTATION: &str = "fleetwright.dev/obeyed";

/// Epoch and generation: the order of two instructions on one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Rank {
    pub(super) epoch: u64,
    pub(super) generation: u64,
}

impl Rank {
    pub(super) fn of_instruction(instruction: &v1::Instruction) -> Self {
        Self { epoch: instruction.epoch, generation: instruction.generation }
    }

    /// The value of [`INSTRUCTION_ANNOTATION`].
    pub(super) fn to_annotation(self) -> String {
        format!("{}/{}", self.epoch, self.generation)
    }

    pub(super) fn parse(note: &str) -> Option<Self> {
        let (epoch, generation) = note.split_once('/')?;
        Some(Self { epoch: epoch.parse().ok()?, generation: generation.parse().ok()? })
    }

    /// The rank of the newest instruction on `claim`; the default without an annotation.
    pub(super) fn of_claim(claim: &Value) -> Self {
        let note =
            claim.pointer("/metadata/annotations").and_then(|annotations| annotations.get(INSTRUCTION_ANNOTATION));
        note.and_then(Value::as_str).and_then(Self::parse).unwrap_or_default()
    }
}

/// Whether an instruction on a claim may be executed.
pub(super) enum Admission {
    /// The instruction may be executed; this is the annotated claim.
    Admitted(Value),
    /// The instruction must not be executed; this is its result.
    Refused(Done),
}

/// Annotates the NodeClaim with the rank of this instruction, unless a newer one is recorded.
pub(super) async fn admit_instruction(api: &Api, rank: Rank, name: &str) -> Result<Admission, ApiError> {
    let claim: Value = api.get(&NODE_CLAIM.one("", name)).await?;
    admit_claim(api, rank, claim).await
}

/// The same for a NodeClaim that was just read.
pub(super) async fn admit_claim(api: &Api, rank: Rank, claim: Value) -> Result<Admission, ApiError> {
    let name = text_at(&claim, "/metadata/name");
    let path = NODE_CLAIM.one("", name);
    let noted = Rank::of_claim(&claim);
    if noted > rank {
        return Ok(Admission::Refused(stale_instruction(noted, name)));
    }
    if noted == rank {
        return Ok(Admission::Admitted(claim));
    }
    let patch = json!({ "metadata": {
        "resourceVersion": claim.pointer("/metadata/resourceVersion"),
        "annotations": { INSTRUCTION_ANNOTATION: rank.to_annotation() },
    } });
    Ok(Admission::Admitted(api.patch(&path, &patch).await?))
}

pub(super) fn stale_instruction(noted: Rank, name: &str) -> Done {
    let why = format!("NodeClaim {name} was last changed by generation {} of epoch {}", noted.generation, noted.epoch);
    Done::failed(v1::Outcome::Stale, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_epoch_outweighs_any_generation() {
        let noted =
            |note: &str| Rank::of_claim(&json!({ "metadata": { "annotations": { INSTRUCTION_ANNOTATION: note } } }));
        let rank = Rank { epoch: 3, generation: 7 };
        assert_eq!(noted(&rank.to_annotation()), rank);
        assert!(noted("2/99") < rank && noted("3/8") > rank && noted("4/1") > rank);
        // An annotation that cannot be parsed counts as absent.
        assert_eq!(noted("seven"), Rank::default());
        assert_eq!(Rank::of_claim(&json!({})), Rank::default());
    }
}
