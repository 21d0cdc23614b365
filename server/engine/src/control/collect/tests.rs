use super::super::testing::Planned;
use super::super::tests::one_machine;
use super::super::{Event, Instruction, LaunchState, OpenLaunch, Settings};
use super::*;
use crate::cluster::testing::{claim, node, pool, text};
use crate::cluster::{ClusterSnapshot, Observation};

/// One machine in service, `m0`, in a cluster that was taken over at 0 s; garbage is collected after 60 s.
fn controller(collect: CollectSettings, ready: bool) -> Planned {
    let mut controller = Planned::new(Settings { collect, ..Settings::default() }, one_machine);
    let mut node = node("m0");
    node.ready = ready;
    let snapshot = ClusterSnapshot {
        pools: vec![pool()],
        claims: vec![claim("m0")],
        nodes: vec![node],
        ..ClusterSnapshot::default()
    };
    let adopted = Event::Adopted { cluster: text("c"), uid: text("uid-1"), launches: Vec::new() };
    controller.handle(adopted, Timestamp(0));
    controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(0));
    let observation = Observation::Snapshot(Box::new(snapshot));
    controller.handle(Event::Observed { cluster: text("c"), observation }, Timestamp(0));
    controller
}

fn instance(claim: &str, uid: &str) -> ListedInstance {
    let provider_id = Text::from(format!("aws:///z/i-{claim}"));
    ListedInstance { provider_id, cluster_uid: text(uid), claim: text(claim), ends: false }
}

/// The machine of [`controller`].
fn known() -> ListedInstance {
    instance("m0", "uid-1")
}

fn listed(controller: &mut Planned, second: i64, complete: bool, instances: &[ListedInstance]) -> Vec<Effect> {
    let asked = Timestamp(second * 1_000);
    let listing = Box::new(Listing { asked, complete, instances: instances.to_vec() });
    controller.handle(Event::Listed { cluster: text("c"), listing }, asked)
}

fn ended(effects: &[Effect]) -> Vec<&str> {
    let ended = effects.iter().filter_map(|effect| match effect {
        Effect::Terminate { cluster_uid, provider_id, .. } if cluster_uid.as_ref() == "uid-1" => {
            Some(provider_id.as_ref())
        }
        _ => None,
    });
    ended.collect()
}

fn removed(effects: &[Effect]) -> Vec<&str> {
    let removed = effects.iter().filter_map(|effect| match effect {
        Effect::Instruct { instruction, .. } => match instruction.as_ref() {
            Instruction::DeleteClaim { claim, .. } => Some(claim.as_ref()),
            _ => None,
        },
        _ => None,
    });
    removed.collect()
}

#[test]
fn a_machine_that_nobody_has_goes_when_it_was_seen_for_long_enough() {
    let mut controller = controller(CollectSettings::default(), true);
    let both = [known(), instance("lost", "uid-1")];
    assert!(ended(&listed(&mut controller, 10, true, &both)).is_empty());
    // 59 s after it was first seen, and 60 s after.
    assert!(ended(&listed(&mut controller, 69, true, &both)).is_empty());
    assert_eq!(ended(&listed(&mut controller, 70, true, &both)), ["aws:///z/i-lost"]);
    assert!(ended(&listed(&mut controller, 80, true, &both)).is_empty(), "it is being given back");
}

#[test]
fn a_machine_that_was_listed_by_mistake_in_between_begins_anew() {
    let mut controller = controller(CollectSettings::default(), true);
    let both = [known(), instance("lost", "uid-1")];
    listed(&mut controller, 10, true, &both);
    listed(&mut controller, 40, true, &[known()]);
    assert!(ended(&listed(&mut controller, 75, true, &both)).is_empty());
}

#[test]
fn another_clusters_machine_is_reported_once_and_left_alone() {
    let mut controller = controller(CollectSettings::default(), true);
    let both = [known(), instance("lost", "uid-2")];
    let effects = listed(&mut controller, 10, true, &both);
    let told = effects.iter().filter(|effect| matches!(effect, Effect::Report { .. })).count();
    assert_eq!(told, 1);
    let later = listed(&mut controller, 200, true, &both);
    assert!(ended(&later).is_empty() && !later.iter().any(|effect| matches!(effect, Effect::Report { .. })));
}

#[test]
fn a_claim_whose_machine_two_listings_lack_is_removed() {
    let mut controller = controller(CollectSettings::default(), false);
    assert!(removed(&listed(&mut controller, 100, true, &[])).is_empty());
    assert_eq!(removed(&listed(&mut controller, 160, true, &[])), ["m0"]);
}

#[test]
fn a_node_that_reports_ready_is_not_gone() {
    let mut controller = controller(CollectSettings::default(), true);
    for second in [100, 160, 600] {
        assert!(removed(&listed(&mut controller, second, true, &[])).is_empty());
    }
}

#[test]
fn a_listing_that_is_not_complete_changes_nothing() {
    let mut guarded = controller(CollectSettings::default(), false);
    for second in [100, 160, 600] {
        assert!(removed(&listed(&mut guarded, second, false, &[])).is_empty());
    }
    // Sabotage: half a listing is taken for a whole one, and a machine that lives is taken for gone.
    let sabotaged = CollectSettings { believe_partial: true, ..CollectSettings::default() };
    let mut sabotaged = controller(sabotaged, false);
    listed(&mut sabotaged, 100, false, &[]);
    assert_eq!(removed(&listed(&mut sabotaged, 160, false, &[])), ["m0"]);
}

#[test]
fn switched_off_nothing_is_collected() {
    let mut controller = controller(CollectSettings { after_ms: None, ..CollectSettings::default() }, true);
    let both = [known(), instance("lost", "uid-1")];
    for second in [10, 100, 1_000] {
        assert!(ended(&listed(&mut controller, second, true, &both)).is_empty());
    }
}

/// The claims whose machines the cloud is asked about when so many of three launches are listed again and again after the
/// cluster was taken over with none of their NodeClaims. No row is closed: an agent that shows nothing may have them all.
fn taken_up(listed_ones: &[&str], complete: bool) -> Vec<Text> {
    let launches = ["a", "b", "c"].map(|name| OpenLaunch {
        claim: text(name),
        attempt: 1,
        state: LaunchState::Launched { provider_id: instance(name, "uid-1").provider_id },
        planned: None,
    });
    let mut controller = Planned::new(Settings::default(), one_machine);
    let adopted = Event::Adopted { cluster: text("c"), uid: text("uid-1"), launches: launches.into() };
    controller.handle(adopted, Timestamp(0));
    controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(0));
    let snapshot = ClusterSnapshot { pools: vec![pool()], nodes: vec![node("a")], ..ClusterSnapshot::default() };
    let vouched = Observation::Snapshot(Box::new(snapshot));
    controller.handle(Event::Observed { cluster: text("c"), observation: vouched.clone() }, Timestamp(0));
    // The picture is held for a minute, and believed when it comes again.
    controller.handle(Event::Observed { cluster: text("c"), observation: vouched }, Timestamp(61_000));
    let instances: Vec<ListedInstance> = listed_ones.iter().map(|name| instance(name, "uid-1")).collect();
    let mut asked = Vec::new();
    for second in [70, 129, 130] {
        for effect in listed(&mut controller, second, complete, &instances) {
            match effect {
                Effect::Describe { claim, .. } => asked.push(claim),
                Effect::Close { claim, .. } => panic!("{claim} is closed"),
                _ => {}
            }
        }
        // 60 s from 70 s on.
        assert!(second == 130 || asked.is_empty());
    }
    asked
}

#[test]
fn a_claim_that_is_gone_with_its_machine_is_no_reason_to_doubt_that_others_are_gone() {
    let none = Vec::<Text>::new;
    assert_eq!(taken_up(&["a", "b", "c"], true), none(), "three of three: somebody has to say so");
    assert_eq!(taken_up(&["a", "b"], true), ["a", "b", "c"].map(text), "two of two");
    assert_eq!(taken_up(&["a", "b"], false), none(), "the listing broke off");
}
