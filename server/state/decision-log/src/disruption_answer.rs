//! What the log keeps of a plan of disruption.
//!
//! The reasons of held nodes are sentences, many for each node, so their codes are kept, and a digest of the
//! whole. The same holds for what was planned: it follows from the input of the plan.

use controller::DisruptionRequest;
use model::disruption_plan::{BlockCode, Command, DisruptionCosts, DisruptionPlan, HeldNode};
use model::input::PlanningInput;
use model::plan::Plan;
use model::removal::RemovalReason;

use super::catalogue_cache::CatalogueCache;
use super::codec::model::{get_credits, put_credits};
use super::codec::{Codec, DecodeError, Reader};
use super::content;
use super::delta;
use super::records::{self, NotRecordable};
use store::log::BlobHash;

/// The first byte of an encoded plan of disruption; that of a plan of pods is
/// [`FORM`](super::codec::FORM).
const FORM_OF_DISRUPTION: u8 = b'D';

/// A node that stayed, why it would have gone, and what held it, by codes.
pub type HeldCodes = (u32, (RemovalReason, Vec<BlockCode>));

/// A plan of disruption as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionAnswer {
    /// The plan of the pods that move.
    pub plan: Plan,
    pub commands: Vec<Command>,
    pub cost: DisruptionCosts,
    pub refused: Vec<String>,
    pub notes: Vec<String>,
    pub held: Vec<HeldCodes>,
    /// Digest of the nodes that stayed with all sentences.
    pub(crate) blocks: [u8; 32],
    pub(crate) planned: [u8; 32],
}

impl DisruptionAnswer {
    /// What is recorded of `planned`.
    ///
    /// # Errors
    /// What was planned cannot be recorded.
    pub(crate) fn of(planned: &DisruptionPlan, cache: &CatalogueCache) -> Result<Self, NotRecordable> {
        // Destructured, so that a new field does not compile until it is encoded.
        // A server replaces drifted nodes of static NodePools by a method, and its plans launch no machine for them.
        let DisruptionPlan { commands, held, cost, input, plan, static_nodes: _, refused, notes } = planned;
        let codes = |held: &HeldNode| (held.node, (held.reason, held.by.iter().map(|block| block.code).collect()));
        Ok(Self {
            plan: plan.clone(),
            commands: commands.clone(),
            cost: *cost,
            refused: refused.clone(),
            notes: notes.clone(),
            held: held.iter().map(codes).collect(),
            blocks: content::hash(&held.to_bytes()),
            planned: digest(input, cache)?,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { plan, commands, cost, refused, notes, held, blocks, planned } = self;
        let mut bytes = vec![FORM_OF_DISRUPTION];
        plan.put(&mut bytes);
        put_credits(plan, &mut bytes);
        commands.put(&mut bytes);
        cost.put(&mut bytes);
        refused.put(&mut bytes);
        notes.put(&mut bytes);
        held.put(&mut bytes);
        blocks.put(&mut bytes);
        planned.put(&mut bytes);
        bytes
    }

    /// Decodes a stored answer; `None` when it is that of a plan of pods.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Result<Self, DecodeError>> {
        (bytes.first() == Some(&FORM_OF_DISRUPTION)).then(|| Self::decode_rest(&mut Reader::new(&bytes[1..])))
    }

    fn decode_rest(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut plan = Plan::get(from)?;
        get_credits(&mut plan, from)?;
        let answer = Self {
            plan,
            commands: Codec::get(from)?,
            cost: Codec::get(from)?,
            refused: Codec::get(from)?,
            notes: Codec::get(from)?,
            held: Codec::get(from)?,
            blocks: Codec::get(from)?,
            planned: Codec::get(from)?,
        };
        from.end()?;
        Ok(answer)
    }
}

/// Digest of an input and of what runs on its nodes.
fn digest(input: &PlanningInput, cache: &CatalogueCache) -> Result<[u8; 32], NotRecordable> {
    let catalogues: Vec<_> = input.pools.iter().map(|pool| cache.reference(&pool.catalogue)).collect();
    let hashes = delta::hash_records(&records::write(input, &catalogues, None::<&DisruptionRequest>)?);
    let policy = BlobHash(content::hash(&input.policy.to_bytes()));
    Ok(records::digest(input.now, &policy, &hashes))
}
