//! What a step reads and changes outside of its cluster.

use std::cell::Cell;
use std::sync::MutexGuard;

use super::guardrails::DisabledGuards;
use super::provisioning::PlanNumber;
use super::region_state::{LazyGuardrails, RegionState};
use super::search_allowance::SearchAllowance;
use super::unavailable_offerings::UnavailableOfferings;
use super::{ClusterCall, Effect, Finding, Settings};
use crate::disruption_allowance::DisruptionAllowance;
use model::{ClusterName, PoolName, Text, Timestamp};

/// What a step of a cluster reads and changes outside of it, and its output.
pub(super) struct Context<'c> {
    pub cluster: ClusterName,
    /// UID of the cluster; empty until its lease is acquired.
    pub uid: Text,
    pub settings: &'c Settings,
    pub disabled_guards: &'c DisabledGuards,
    pub offerings: &'c UnavailableOfferings,
    /// Locked from their first access until the step has counted what it decided.
    pub guardrails: LazyGuardrails<'c>,
    pub effects: &'c mut Vec<Effect>,
    pub now: Timestamp,
    region: &'c RegionState,
    locked: &'c Cell<bool>,
}

impl<'c> Context<'c> {
    /// The context of a step at `now`. The step sets `locked` when it locks the guardrails.
    pub fn new(
        (cluster, uid): (ClusterName, Text),
        region: &'c RegionState,
        locked: &'c Cell<bool>,
        effects: &'c mut Vec<Effect>,
        now: Timestamp,
    ) -> Self {
        Self {
            cluster,
            uid,
            settings: region.settings(),
            disabled_guards: region.disabled_guards(),
            offerings: region.offerings(),
            guardrails: region.guardrails(locked, now),
            effects,
            now,
            region,
            locked,
        }
    }

    /// Lets other clusters access the guardrails again.
    pub fn release_guardrails(&mut self) {
        self.guardrails = self.region.guardrails(self.locked, self.now);
    }

    /// Has the store or the cloud called.
    pub fn call(&mut self, call: ClusterCall) {
        self.effects.push(Effect::Call(call));
    }

    /// Why nothing is launched from a NodePool.
    pub fn launch_block(&self, pool: &PoolName) -> Option<Text> {
        self.guardrails.launch_block(&self.cluster, Some(pool)).map(|held| held.reason)
    }

    pub fn report_finding(&mut self, finding: Finding) {
        self.effects.push(Effect::ReportFinding(finding));
    }

    pub fn next_id(&self) -> u64 {
        self.region.next_number()
    }

    /// The allowance for searches of all clusters, which is locked for one access.
    pub fn searches(&self) -> MutexGuard<'c, SearchAllowance> {
        self.region.searches()
    }

    /// The allowance for plans of disruption of all clusters, which is locked for one access.
    pub fn disruption_plans(&self) -> MutexGuard<'c, DisruptionAllowance> {
        self.region.disruption_plans()
    }

    pub fn next_plan_number(&self) -> PlanNumber {
        self.region.next_plan_number()
    }
}
