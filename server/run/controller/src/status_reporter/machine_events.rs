//! Events of machines: their stages, what they replace, and their drains.

use std::collections::BTreeMap;
use std::fmt;

use super::StatusReporter;
use crate::nodeclaim::{ManagedClaim, StageKind, TerminationReason};
use crate::origin::Origin;
use crate::status::{EventOrder, ObjectRef};
use crate::step_view::StepView;
use crate::{ClassFacts, EventReason};
use cluster::Target;
use model::ClaimName;

impl StatusReporter {
    /// Events for stage changes of machines.
    pub(super) fn machine_events(&mut self, view: &StepView<'_>) -> Vec<EventOrder> {
        let mut events = Vec::new();
        if self.reported_stages.len() > view.claims.len() {
            self.reported_stages.retain(|claim, _| view.claims.contains(claim));
        }
        for machine in view.claims.iter() {
            let known = self.reported_stages.get_mut(machine.name());
            let earlier = known.map(|stage| std::mem::replace(stage, machine.stage()));
            if earlier.is_none() {
                self.reported_stages.insert(machine.name().clone(), machine.stage());
            }
            // Of a machine found in the cluster, the previous process has recorded the earlier stages.
            let begun = machine.planned().map(|_| StageKind::Planned);
            let Some(earlier) = earlier.or(begun).filter(|stage| *stage != machine.stage()) else { continue };
            events.extend(stage_events(machine, earlier, view));
        }
        self.disruption_reasons.retain(|claim, _| view.claims.contains(claim));
        events
    }
}

fn stage_events(machine: &ManagedClaim, earlier: StageKind, view: &StepView<'_>) -> Vec<EventOrder> {
    let of_claim = |reason, message: String, origin| {
        vec![EventOrder::new(ObjectRef::Claim(machine.name().clone()), reason, message, origin)]
    };
    let (launch, why) = (machine.launch_origin(), machine.termination_message());
    match machine.stage() {
        StageKind::Launched => of_claim(
            EventReason::Launched,
            launched_message(machine.provider_id(), view.settings().class_facts),
            launch,
        ),
        StageKind::Registered => of_claim(EventReason::Registered, "its Node has joined".to_owned(), launch),
        StageKind::Initialized => of_claim(EventReason::Initialized, "its Node is initialized".to_owned(), launch),
        StageKind::Deleting
            if matches!(machine.termination_reason(), Some(TerminationReason::InsufficientCapacity { .. })) =>
        {
            // No machine was bought at its price.
            let origin = Origin { decision: launch.decision, ..Origin::default() };
            of_claim(EventReason::InsufficientCapacityError, why.to_string(), origin)
        }
        stage if stage.is_terminating() && !earlier.is_terminating() => {
            let message = format!("the machine is being terminated: {why}");
            let event = of_claim(EventReason::DisruptionTerminating, message, machine.removal_origin());
            event
                .into_iter()
                .flat_map(|event| event.on_each(ObjectRef::of_machine(view.state, machine.name())))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Events of the machines that others wait for, which they replace.
pub(super) fn replacement_events(view: &StepView<'_>) -> Vec<EventOrder> {
    let event = |(claim, replaced): (&ClaimName, &ClaimName)| {
        let machine = view.claims.get(claim)?;
        let (reason, message) = match machine.stage() {
            StageKind::Launching => {
                (EventReason::DisruptionLaunching, format!("is launched in place of NodeClaim {replaced}"))
            }
            StageKind::Launched | StageKind::Registered => {
                let message = format!("the disruption of NodeClaim {replaced} waits until its Node is initialized");
                (EventReason::DisruptionWaitingReadiness, message)
            }
            _ => return None,
        };
        let subject = ObjectRef::Claim(claim.clone());
        Some(EventOrder::new(subject, reason, message, machine.launch_origin()).in_series(""))
    };
    replacing_machines(view).into_iter().filter_map(event).collect()
}

/// Machines that pods of a machine that is replaced are planned onto, and one that each replaces.
fn replacing_machines<'v>(view: &StepView<'v>) -> BTreeMap<&'v ClaimName, &'v ClaimName> {
    let mut machines = BTreeMap::new();
    for replaced in view.state.replacements().keys() {
        let pods = view.state.node_of_claim(replaced).map(|node| view.state.pods_on(&node.name));
        for pod in pods.into_iter().flatten() {
            let assignment = view.state.assignments().get(&pod.key);
            if let Some(Target::Claim(claim)) = assignment.map(|assignment| &assignment.target) {
                machines.entry(claim).or_insert(replaced);
            }
        }
    }
    machines
}

/// What blocks the drains under way, and the deadlines at which they end.
pub(super) fn drain_events(view: &StepView<'_>) -> Vec<EventOrder> {
    let draining = view.claims.iter().filter(|machine| machine.stage() == StageKind::Draining);
    draining.flat_map(|machine| drain_events_of(machine, view)).collect()
}

fn drain_events_of(machine: &ManagedClaim, view: &StepView<'_>) -> Vec<EventOrder> {
    let origin = machine.removal_origin();
    let deadline = machine.drain_terms().and_then(|terms| terms.deadline).map(|deadline| {
        let message = format!("pods that are left at {deadline} are deleted, whatever their PodDisruptionBudgets");
        let subject = ObjectRef::Claim(machine.name().clone());
        EventOrder::new(subject, EventReason::TerminationGracePeriodExpiring, message, origin)
    });
    let expiring =
        deadline.map(|event| event.on_each(ObjectRef::of_machine(view.state, machine.name()))).unwrap_or_default();
    let node = view.state.node_of_claim(machine.name());
    let blocked = node.and_then(|node| {
        let blockers = view.state.drain_blockers(&node.name, view.now);
        let (message, first) = (drain_blocked_message(&blockers)?, blockers.first()?.clone());
        let subject = ObjectRef::Node(node.name.clone());
        Some(EventOrder::new(subject, EventReason::FailedDraining, message, origin).in_series(first))
    });
    expiring.into_iter().chain(blocked).collect()
}

fn launched_message(provider_id: impl fmt::Display, facts: ClassFacts) -> String {
    match facts {
        ClassFacts::Simulated => {
            format!("machine {provider_id} is launched in the simulated cloud; no instance is bought")
        }
        ClassFacts::Resolved => format!("machine {provider_id} is launched"),
    }
}

/// Sentence: why a drain does not proceed.
pub(crate) fn drain_blocked_message(reasons: &[String]) -> Option<String> {
    let (first, rest) = reasons.split_first()?;
    Some(if rest.is_empty() { first.clone() } else { format!("{first}, and {} more pods cannot leave", rest.len()) })
}
