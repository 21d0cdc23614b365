//! For which reasons a node would go, and what blocks it from each.

use std::collections::BTreeSet;

use super::Verdict;
use super::blocks::LiveBlocks;
use crate::disruption::candidates::Candidate;
use crate::disruption::settings::RepairMode;
use crate::disruption::{expiry_of, repair_of};
use cluster::PodRecord;
use model::disruption_plan::{Block, BlockCode};
use model::disruption_policy::{ConsolidationPolicy, DisruptionReason};
use model::interruption::InterruptionKind;
use model::removal::RemovalReason;
use model::{Text, Timestamp};

/// Codes of plans of disruption that the blocks by the state leave out.
const OF_PLANS: [BlockCode; 8] = [
    BlockCode::NoCapacity,
    BlockCode::NoSavings,
    BlockCode::MinValues,
    BlockCode::SpotFlexibility,
    BlockCode::PendingPods,
    BlockCode::LocalVolume,
    BlockCode::Policy,
    BlockCode::PodDisruptionBudget,
];

impl LiveBlocks<'_, '_> {
    /// When the node expires.
    pub(super) fn expires(&self) -> Option<Timestamp> {
        expiry_of(self.managed?.claim, self.view)
    }

    /// The reasons that apply, in the order of precedence.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let Some(candidate) = self.managed else {
            let (reason, evidence) = (RemovalReason::Underutilized, Text::from("it is not judged"));
            return vec![Verdict { reason, evidence, by: vec![self.unmanaged()] }];
        };
        let voluntary = if self.is_empty() { self.empty() } else { self.underutilized(&candidate) };
        let found = [self.unhealthy(), self.expired(), self.drifted(&candidate)];
        let mut verdicts: Vec<Verdict> = found.into_iter().flatten().chain([voluntary]).collect();
        verdicts.sort_by_key(|verdict| verdict.reason);
        for verdict in &mut verdicts {
            if self.view.is_leaving(candidate.claim) {
                verdict.by.insert(0, Block::new(BlockCode::Deleting, self.node_title(), "is being deleted already"));
            }
            // The last plan repeats what the state shows, and a PodDisruptionBudget may select many pods.
            let mut seen = BTreeSet::new();
            verdict.by.retain(|block| seen.insert((block.code, block.object.clone())));
        }
        verdicts
    }

    fn is_empty(&self) -> bool {
        !self.step.state.pods_on(&self.node.name).any(PodRecord::is_reschedulable)
    }

    fn unhealthy(&self) -> Option<Verdict> {
        if let Some(candidate) = self.managed.filter(|one| self.view.maintenance.contains_key(&one.claim.name)) {
            let mut by = self.of_operation(RemovalReason::Repaired);
            by.extend(self.of_voluntary_replacement(&candidate, DisruptionReason::Unhealthy));
            let evidence = Text::from(InterruptionKind::ScheduledChange.to_string());
            return Some(Verdict { reason: RemovalReason::Repaired, evidence, by });
        }
        let repair = repair_of(self.node, self.managed?.claim, self.view)?;
        let title = self.node_title();
        let mut by = Vec::new();
        if !self.view.feature_gates.node_repair {
            let message = "is off: unhealthy nodes are not repaired";
            by.push(Block::new(BlockCode::Policy, "FeatureGate/NodeRepair", message));
        }
        if self.node.do_not_repair {
            by.push(Block::new(BlockCode::DoNotDisrupt, title.clone(), "has karpenter.sh/do-not-repair"));
        }
        if repair.due > self.view.now {
            let message = format!("is repaired if the condition stays, {}", self.remaining(repair.due));
            by.push(Block::new(BlockCode::Policy, title, message));
        }
        let candidate = self.managed?;
        if self.view.repair == RepairMode::Voluntary {
            by.extend(self.of_operation(RemovalReason::Repaired));
            by.extend(self.of_voluntary_replacement(&candidate, DisruptionReason::Unhealthy));
            return Some(Verdict { reason: RemovalReason::Repaired, evidence: repair.evidence, by });
        }
        if let Some(blocked) = repair.blocked {
            let message =
                format!("has {} unhealthy nodes of {}: too many for a repair", blocked.unhealthy, blocked.nodes);
            by.push(Block::new(BlockCode::Guardrail, format!("NodePool/{}", candidate.claim.pool), message));
        }
        by.extend(self.of_operation(RemovalReason::Unhealthy));
        Some(Verdict { reason: RemovalReason::Unhealthy, evidence: repair.evidence, by })
    }

    fn expired(&self) -> Option<Verdict> {
        self.expires().filter(|expires| *expires <= self.view.now)?;
        let evidence = Text::from("it is older than expireAfter of its NodeClaim");
        let by = self.of_operation(RemovalReason::Expired);
        Some(Verdict { reason: RemovalReason::Expired, evidence, by })
    }

    fn drifted(&self, candidate: &Candidate<'_>) -> Option<Verdict> {
        let drift = self.step.state.drift_of(candidate.claim, self.view.now)?;
        let mut by = self.of_operation(RemovalReason::Drifted);
        by.extend(self.of_voluntary_replacement(candidate, DisruptionReason::Drifted));
        let evidence = Text::from(format!("it has drifted ({}): {}", drift.reason, drift.message));
        Some(Verdict { reason: RemovalReason::Drifted, evidence, by })
    }

    /// What blocks a node that is replaced first for a voluntary reason.
    fn of_voluntary_replacement(&self, candidate: &Candidate<'_>, reason: DisruptionReason) -> Vec<Block> {
        let mut by = self.of_node();
        if candidate.claim.termination_grace_period.is_none() {
            by.extend(self.of_pods());
        }
        by.extend(self.of_schedulers());
        if candidate.pool.pool.not_ready.is_some() {
            let title = format!("NodePool/{}", candidate.pool.pool.name);
            by.push(Block::new(BlockCode::NoCapacity, title, "is not ready, so that nothing can replace the node"));
        }
        by.extend(self.of_replacements());
        // What is under way has its place in the budgets.
        if self.step.state.replacement_of(&candidate.claim.name).is_none() {
            by.extend(self.of_budgets(reason));
        }
        by
    }

    fn empty(&self) -> Verdict {
        let mut by = self.of_operation(RemovalReason::Empty);
        by.extend(self.of_node());
        by.extend(self.of_pods());
        by.extend(self.of_wait());
        by.extend(self.of_budgets(DisruptionReason::Empty));
        Verdict { reason: RemovalReason::Empty, evidence: Text::from("it has only DaemonSet pods"), by }
    }

    fn underutilized(&self, candidate: &Candidate<'_>) -> Verdict {
        let mut by = self.of_operation(RemovalReason::Underutilized);
        by.extend(self.of_node());
        by.extend(self.of_pods());
        by.extend(self.of_schedulers());
        let waits = self.of_wait();
        let moved = self.of_moves();
        // What the last plan found is older than what holds the node now.
        let is_held_since = moved.is_some() || !waits.is_empty();
        by.extend(waits);
        by.extend(moved);
        by.extend(self.of_waiting_move());
        by.extend(self.of_replacements());
        let is_replaced = self.step.state.replacement_of(&candidate.claim.name).is_some();
        if !is_replaced {
            by.extend(self.of_budgets(DisruptionReason::Underutilized));
            // No plan looks for another place of a pod that stays, and what one found earlier may be outdated.
            by.extend(
                self.of_consolidation(candidate, by.is_empty())
                    .into_iter()
                    .filter(|block| !is_held_since || block.code == BlockCode::Policy),
            );
        }
        let evidence = Text::from("it may go if its pods fit elsewhere at a lower price");
        Verdict { reason: RemovalReason::Underutilized, evidence, by }
    }

    /// The last plan held the node by what blocks it no more.
    fn judged_again(&self, ended: &[Block]) -> Block {
        let codes: BTreeSet<&str> = ended.iter().map(|block| block.code.as_str()).collect();
        let codes: Vec<&str> = codes.into_iter().collect();
        let message =
            format!("was held by {} when disruption was planned last; the next plan judges it again", codes.join(", "));
        Block::new(BlockCode::NotPlanned, self.node_title(), message)
    }

    /// Whether consolidation looks at the node, and what its last plan found.
    fn of_consolidation(&self, candidate: &Candidate<'_>, is_free: bool) -> Vec<Block> {
        if candidate.pool.disruption.policy == ConsolidationPolicy::WhenEmpty {
            let title = format!("NodePool/{}", candidate.pool.pool.name);
            let message = "has consolidationPolicy: WhenEmpty, and pods run on the node";
            return vec![Block::new(BlockCode::Policy, title, message)];
        }
        if !self.ctx.settings.consolidation.is_enabled {
            return vec![Block::new(BlockCode::Policy, "Setting/disruption.consolidation", "is false")];
        }
        let planned = &self.step.disruption.consolidation.planned_blocks;
        match planned.of_node(&self.node.name) {
            Some(blocks) => {
                let known: Vec<Block> = blocks.iter().filter(|block| OF_PLANS.contains(&block.code)).cloned().collect();
                if known.is_empty() && is_free { vec![self.judged_again(blocks)] } else { known }
            }
            None if is_free => {
                let message = match planned.at() {
                    Some(_) => {
                        "was removed by the last plan of disruption, which was not carried out, or is newer than it"
                    }
                    None => "has not been judged by a plan of disruption yet",
                };
                vec![Block::new(BlockCode::NotPlanned, self.node_title(), message)]
            }
            None => Vec::new(),
        }
    }
}
