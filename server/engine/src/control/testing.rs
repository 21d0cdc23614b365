//! A controller whose plans are made as soon as they are asked for.

use std::collections::VecDeque;
use std::ops::Deref;

use super::{Effect, Event, PlanRequest, PlanWorker, Planner, RegionController, Settings};
use crate::model::Timestamp;

/// A controller and the planner beside it.
#[derive(Debug)]
pub(crate) struct Planned {
    controller: RegionController,
    worker: PlanWorker,
    /// Plans are asked for and not made.
    pub stalled: bool,
    /// Those that were asked for meanwhile.
    pub waiting: VecDeque<PlanRequest>,
}

impl Planned {
    pub fn new(settings: Settings, planner: Planner) -> Self {
        let (controller, worker) = (RegionController::new(settings), PlanWorker::new(planner));
        Self { controller, worker, stalled: false, waiting: VecDeque::new() }
    }

    /// Takes in what happened, and the plans that were asked for because of it.
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

    /// The plan that was asked for first is there.
    pub fn plan_waiting(&mut self, now: Timestamp) -> Vec<Effect> {
        let request = self.waiting.pop_front().expect("a plan was asked for");
        let answer = self.worker.answer(request);
        self.handle(Event::Planned(Box::new(answer)), now)
    }
}

impl Deref for Planned {
    type Target = RegionController;

    fn deref(&self) -> &RegionController {
        &self.controller
    }
}
