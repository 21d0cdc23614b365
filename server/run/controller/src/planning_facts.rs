//! What plans outside of the control loop are made from: quotes, and plans that are only shown.
//!
//! Facts are a snapshot that costs nothing; the caller builds the planning input from it on a thread of its own. While the
//! snapshot is held, the next change of the cluster copies its state, so it should not be held for longer than that takes.
//! [`FactsKey`] tells whether an input that was built before still holds.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::context::Context;
use crate::guardrails::Mode;
use crate::step_view::StepView;
use crate::unavailable_offerings::Probing;
use cluster::ClusterState;
use model::input::{PlanningInput, Policy};
use model::offering::SharedCatalogue;
use model::{NotReady, PoolName, Text, Timestamp};

/// What is known of a cluster at one time.
#[derive(Debug, Clone)]
pub struct PlanningFacts {
    key: FactsKey,
    state: Arc<ClusterState>,
    policy: Policy,
    price_date: Option<Text>,
    now: Timestamp,
}

/// Which facts these are. Facts with equal keys make equal inputs but for their time.
#[derive(Debug, Clone, Default)]
pub struct FactsKey {
    /// Version of the state; `None` if nothing is known of the cluster.
    version: Option<u64>,
    launch_block: Option<Text>,
    pools: BTreeMap<PoolName, PoolFacts>,
}

/// What is known of a NodePool beside its record.
#[derive(Debug, Clone)]
struct PoolFacts {
    /// Its catalogue without unavailable offerings. It is held, so that no other one has its address.
    catalogue: SharedCatalogue,
    /// Why nothing is launched from this NodePool.
    closed: Option<Text>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoFacts {
    /// The agent is not connected, or has not sent the state of the cluster yet.
    NotSynced,
    /// The known ones still hold.
    Unchanged,
}

impl PartialEq for PoolFacts {
    fn eq(&self, other: &Self) -> bool {
        SharedCatalogue::ptr_eq(&self.catalogue, &other.catalogue) && self.closed == other.closed
    }
}

impl PartialEq for FactsKey {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version && self.launch_block == other.launch_block && self.pools == other.pools
    }
}

impl PlanningFacts {
    #[must_use]
    pub fn key(&self) -> &FactsKey {
        &self.key
    }

    /// When they were taken.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.now
    }

    /// Why nothing may be launched in the cluster, if so.
    #[must_use]
    pub fn launch_block(&self) -> Option<&Text> {
        self.key.launch_block.as_ref()
    }

    /// Date of the prices; `None` if it is not known.
    #[must_use]
    pub fn price_date(&self) -> Option<&Text> {
        self.price_date.as_ref()
    }

    /// The planning input for the pods that wait, as a plan of the cluster would have it now, without a search.
    /// NodePools whose launches are held may not launch.
    #[must_use]
    pub fn build(&self) -> PlanningInput {
        let policy = Policy { search_steps: 0, ..self.policy.clone() };
        let mut input = self.state.planning_input(&policy, self.now);
        for pool in &mut input.pools {
            let Some(known) = self.key.pools.get(&pool.name) else { continue };
            pool.catalogue = SharedCatalogue::clone(&known.catalogue);
            if let Some(held) = &known.closed {
                pool.not_ready = Some(NotReady::NodePool(held.clone()));
            }
        }
        input
    }
}

impl StepView<'_> {
    /// What a plan outside of the control loop is made from now.
    ///
    /// # Errors
    /// Nothing is known of the cluster, or what `known` names still holds.
    pub fn planning_facts(&self, known: Option<&FactsKey>) -> Result<PlanningFacts, NoFacts> {
        if !self.is_ready() {
            return Err(NoFacts::NotSynced);
        }
        let (locked, mut effects) = (Cell::new(false), Vec::new());
        let of = (self.cluster.clone(), self.uid.clone());
        let ctx = Context::new(of, self.region, &locked, &mut effects, self.now);
        let key = facts_key(&ctx, self);
        if known == Some(&key) {
            return Err(NoFacts::Unchanged);
        }
        let price_date = self.state.pools().find_map(|record| record.meta.price_date.clone());
        Ok(PlanningFacts {
            key,
            state: self.state.snapshot(),
            policy: ctx.settings.policy.clone(),
            price_date,
            now: self.now,
        })
    }
}

pub(crate) fn facts_key(ctx: &Context<'_>, view: &StepView<'_>) -> FactsKey {
    let launch_block = why_nothing_is_launched(ctx, view);
    let of_pool = |pool: &model::NodePool| PoolFacts {
        catalogue: ctx.offerings.mask_catalogue(view.state.launch_catalogue(pool), Probing::Excluded, ctx.now),
        // A block of the whole cluster says it once for all of them.
        closed: if launch_block.is_some() { None } else { ctx.launch_block(&pool.name) },
    };
    let pools = view.state.pools().map(|record| (record.pool.name.clone(), of_pool(&record.pool))).collect();
    FactsKey { version: Some(view.state.version()), launch_block, pools }
}

/// What blocks all launches of the cluster.
pub(crate) fn why_nothing_is_launched(ctx: &Context<'_>, view: &StepView<'_>) -> Option<Text> {
    if let Some(held) = ctx.guardrails.launch_block(view.cluster, None) {
        return Some(held.reason);
    }
    let why = if view.guardrails.is_quarantined() {
        "the cluster is in quarantine: see `fleetwright fleet clusters`"
    } else if ctx.settings.guardrails.mode_of(view.cluster) == Mode::Shadow {
        "the cluster is in shadow mode, in which decisions are recorded and not carried out"
    } else if ctx.guardrails.circuit_breaker.is_engaged(view.cluster) {
        "the circuit breaker holds launches, because launches of the cluster fail"
    } else {
        return None;
    };
    Some(Text::from(why))
}

#[cfg(test)]
mod tests;
