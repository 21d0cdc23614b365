//! Nodes that appear empty, and on which the API server lists pods that the agent does not report.

use crate::{Event, StageKind};
use cluster::Object;
use cluster::testing::{bound_to, claim, pod, text};
use model::interruption::InterruptionKind::SpotInterrupted;

use super::fixture::Fixture;

const MINUTE: i64 = 60_000;

/// Two machines without pods, of which the first one has some by the API server's word.
fn world() -> Fixture {
    let mut world = Fixture::with(2, Vec::new(), |_| {});
    world.occupied.insert(text("m0"));
    world
}

fn stage(world: &Fixture, claim: &str) -> Option<String> {
    let view = world.controller.view(&text("c"))?;
    let machine = view.machines().find(|machine| machine.claim.as_ref() == claim)?;
    Some(machine.stage.as_str().to_owned())
}

#[test]
fn a_node_with_unreported_pods_stays_initialized_and_is_checked_again_ten_minutes_later() {
    let mut world = world();
    world.run_to(MINUTE);
    assert!(!world.drained().contains("m0") && world.drained().contains("m1"));
    assert_eq!(stage(&world, "m0"), Some(StageKind::Initialized.as_str().to_owned()));
    assert!(
        world.controller.state(&text("c")).is_some_and(|state| !state.is_marked_for_deletion(&text("m0"))),
        "its room counts"
    );
    let first = world.done.refused[0].0.as_millis();
    world.run_to(first + 10 * MINUTE - 1);
    assert_eq!(world.done.refused.len(), 1);
    world.run_to(first + 12 * MINUTE);
    assert_eq!(world.done.refused.len(), 2);
    // A pod is reported and removed: the watch works, and 30 s later the Node is checked again.
    let pod = bound_to("m0", pod("web-1", 1));
    world.observe("c", Object::Pod(pod.clone()));
    world.end_pod("c", pod);
    world.occupied.clear();
    let shown = first + 12 * MINUTE;
    world.run_to(shown + MINUTE);
    assert!(world.drained().contains("m0"));
}

#[test]
fn a_machine_interrupted_meanwhile_is_drained_in_any_case() {
    let interrupted = |interrupted: bool| {
        let mut world = Fixture::with(2, Vec::new(), |_| {});
        world.stuck = Some("m0");
        world.run_to(MINUTE);
        let asked = world.done.drained.iter().filter(|(_, claim)| claim.as_ref() == "m0").count();
        if interrupted {
            let provider_id = claim("m0").provider_id;
            world.handle(Event::Interrupted { provider_id, kind: SpotInterrupted, ends: None });
        }
        world.refuse_stuck_drains();
        world.run_to(3 * MINUTE);
        (asked, world.done.drained.iter().filter(|(_, claim)| claim.as_ref() == "m0").count())
    };
    assert_eq!(interrupted(true), (1, 2));
    assert_eq!(interrupted(false), (1, 1), "otherwise it stays");
}
