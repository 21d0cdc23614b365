//! What all clusters of a process share, whatever their account and region: guardrails, the shares of the processors that
//! searches and plans of disruption may use, and numbers.
//!
//! Limits of the whole fleet therefore hold across the accounts and regions of a process at once, and those of several
//! processes by the counters that each publishes. A process publishes them once, not for each account and region.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Settings;
use crate::disruption_allowance::{DisruptionAllowance, DisruptionTotals};
use crate::guardrails::Guardrails;
use crate::provisioning::PlanNumber;
use crate::search_allowance::{SearchAllowance, SearchTotals};

/// What all clusters of a process share.
#[derive(Debug)]
pub struct FleetState {
    guardrails: Mutex<Guardrails>,
    searches: Mutex<SearchAllowance>,
    disruption_plans: Mutex<DisruptionAllowance>,
    next_number: AtomicU64,
    next_plan: AtomicU64,
    /// Number of changes of the limits of the whole fleet.
    limits_version: AtomicU64,
}

impl FleetState {
    /// The state of a process that has just started.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            guardrails: Mutex::default(),
            searches: Mutex::new(SearchAllowance::new(settings.search)),
            disruption_plans: Mutex::new(DisruptionAllowance::new(settings.disruption_share)),
            next_number: AtomicU64::new(settings.first_number),
            next_plan: AtomicU64::new(1),
            limits_version: AtomicU64::new(0),
        }
    }

    pub(crate) fn guardrails(&self) -> MutexGuard<'_, Guardrails> {
        // Every change of the guardrails is complete in itself, so a poisoned lock guards
        // consistent counts.
        self.guardrails.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no step has the guardrails locked.
    #[cfg(test)]
    pub(crate) fn are_guardrails_free(&self) -> bool {
        self.guardrails.try_lock().is_ok()
    }

    pub(crate) fn searches(&self) -> MutexGuard<'_, SearchAllowance> {
        // Every change of the allowance is complete in itself, so a poisoned lock guards
        // consistent counts.
        self.searches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn disruption_plans(&self) -> MutexGuard<'_, DisruptionAllowance> {
        // Every change of the allowance is complete in itself, as with searches.
        self.disruption_plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What searches for cheaper plans did since the process started.
    #[must_use]
    pub fn search_totals(&self) -> SearchTotals {
        self.searches().totals()
    }

    /// What plans of disruption did since the process started, and what waits.
    #[must_use]
    pub fn disruption_totals(&self) -> DisruptionTotals {
        self.disruption_plans().totals()
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn next_plan_number(&self) -> PlanNumber {
        PlanNumber(self.next_plan.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn limits_version(&self) -> u64 {
        self.limits_version.load(Ordering::Acquire)
    }

    pub(crate) fn record_change_of_limits(&self) {
        self.limits_version.fetch_add(1, Ordering::Release);
    }
}
