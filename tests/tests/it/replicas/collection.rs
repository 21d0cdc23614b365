//! One server lists the cloud's machines, another one decides for the cluster: what nobody has goes, whatever changes hands.

use e2e::Signal;
use fleetwright_proto::simulation::v1;

use super::world::{World, fleet_of};
use super::{FOR_EVER, figure};

const REGION: &str = "region/default/us-east-1";

/// Buys a machine behind everybody's back, with the tags of `like` but for the claim and, if given, the cluster's UID.
fn stray(world: &World, like: &v1::Instance, claim: &str, uid: Option<&str>) {
    let option = v1::Override { instance_type: like.instance_type.clone(), zone: like.zone.clone() };
    world.launch(v1::LaunchRequest {
        token: claim.to_owned(),
        cluster: like.cluster.clone(),
        cluster_uid: uid.unwrap_or(&like.cluster_uid).to_owned(),
        claim: claim.to_owned(),
        pool: like.pool.clone(),
        node_class: "default".to_owned(),
        capacity_type: like.capacity_type.clone(),
        overrides: vec![option],
        reservation: String::new(),
    });
}

fn alive(book: &v1::BookResponse, claim: &str) -> bool {
    let sales = book.sales.iter().filter(|sale| sale.instance.as_ref().is_some_and(|machine| machine.claim == claim));
    sales.into_iter().any(|sale| sale.ended_ms.is_none())
}

fn gone(world: &World, claim: &str) {
    world.until_book(&format!("the end of {claim}"), |book| (!alive(book, claim)).then_some(()));
}

/// Waits for so many further listings.
fn listings(world: &World, more: u64) {
    let count = |book: &v1::BookResponse| book.calls.get("List").copied().unwrap_or(0);
    let before = count(&world.book());
    world.until_book("further listings", |book| (count(book) >= before + more).then_some(()));
}

#[test]
fn a_machine_that_nobody_has_goes_whoever_lists_and_whoever_decides() {
    let test = "a_machine_that_nobody_has_goes_whoever_lists_and_whoever_decides";
    let Some(world) = World::start(test, FOR_EVER, &[]) else { return };
    let lister = world.until_lease(REGION, |_| true);
    world.board.lead_to(world.second.grpc);
    let agent = world.agent("shop");
    let owner = world.until_lease("cluster/shop", |_| true);
    assert_ne!(owner.owner, lister.owner, "one lists, the other decides");
    let like = world.until_book("a machine of the cluster's own", |book| {
        let last = book.sales.iter().rfind(|sale| sale.ended_ms.is_none())?;
        last.instance.clone()
    });
    world.until_fleet(&world.second, "every pod on a machine", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|shop| shop["pending"] == 0 && shop["machines"][0].is_object())
    });

    // A listing that fails says nothing, however often it fails.
    let failing = |percent| v1::WeatherRequest { failed_lists_percent: Some(percent), ..v1::WeatherRequest::default() };
    world.weather(failing(100));
    stray(&world, &like, "stray-1", None);
    stray(&world, &like, "foreign-1", Some("another cluster of this name"));
    // Four listings are two collection periods.
    listings(&world, 4);
    assert!(alive(&world.book(), "stray-1"));
    world.weather(failing(0));
    let begun = world.database_now();
    gone(&world, "stray-1");
    figure(&format!("a machine that nobody has was given back after {:.1} s", world.database_now() - begun));

    // The lister ends; whoever decides lists from here on.
    world.first.signal(Signal::Terminate);
    let successor = world.until_lease(REGION, |lease| lease.epoch > lister.epoch);
    assert_eq!(successor.owner, owner.owner);
    stray(&world, &like, "stray-2", None);
    gone(&world, "stray-2");

    let book = world.book();
    assert!(alive(&book, "foreign-1"), "a machine with another cluster's UID is never touched");
    let shop = world.lease("cluster/shop");
    assert_eq!((shop.epoch, shop.owner), (owner.epoch, owner.owner), "its cluster stayed where it was");
    assert!(
        world.second.lines().iter().any(|line| line.contains("another cluster of this name")),
        "but it is reported"
    );
    assert_eq!(world.doubles(), Vec::<String>::new());
    drop(agent);
}
