//! A controller that computes requested plans synchronously.

use std::collections::VecDeque;
use std::ops::Deref;

use super::guardrails::DisabledGuards;
use super::{Effect, Event, PlanOutcome, PlanRequest, PlanWorker, RegionController, Settings};
use model::Timestamp;
use model::input::PlanningInput;

/// A controller with its planner.
#[derive(Debug)]
pub(crate) struct SynchronousController {
    controller: RegionController,
    worker: PlanWorker,
    /// Requested plans are queued and not computed.
    pub stalled: bool,
    /// Requests queued while `stalled`.
    pub waiting: VecDeque<PlanRequest>,
}

impl SynchronousController {
    pub fn new(settings: Settings, planner: impl FnMut(&PlanningInput) -> PlanOutcome + Send + 'static) -> Self {
        Self::with_disabled_guards(settings, planner, DisabledGuards::default())
    }

    /// A controller with its planner, without `disabled_guards`.
    pub(crate) fn with_disabled_guards(
        settings: Settings,
        planner: impl FnMut(&PlanningInput) -> PlanOutcome + Send + 'static,
        disabled_guards: DisabledGuards,
    ) -> Self {
        let controller = RegionController::with_disabled_guards(settings, disabled_guards);
        let worker = PlanWorker::new(Box::new(planner));
        Self { controller, worker, stalled: false, waiting: VecDeque::new() }
    }

    /// Handles an event, and the plans that it requests.
    pub fn handle(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        let mut done = Vec::new();
        let mut effects = VecDeque::from(self.controller.handle(event, now));
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Plan(request) if self.stalled => self.waiting.push_back(*request),
                Effect::Plan(request) => {
                    let answer = self.worker.answer(*request);
                    for effect in self.controller.handle(Event::Planned(Box::new(answer)), now).into_iter().rev() {
                        effects.push_front(effect);
                    }
                }
                other => done.push(other),
            }
        }
        done
    }

    /// Computes the first queued plan.
    pub fn plan_waiting(&mut self, now: Timestamp) -> Vec<Effect> {
        let request = self.waiting.pop_front().expect("a plan was asked for");
        let answer = self.worker.answer(request);
        self.handle(Event::Planned(Box::new(answer)), now)
    }
}

impl Deref for SynchronousController {
    type Target = RegionController;

    fn deref(&self) -> &RegionController {
        &self.controller
    }
}
