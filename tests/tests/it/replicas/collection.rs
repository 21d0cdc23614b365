//! One server lists the cloud's instances, another owns the cluster: orphaned instances are
//! removed, whichever leases move.

use e2e::Signal;
use fleetwright_proto::simulation::v1;

use super::environment::{Environment, fleet_of};
use super::{FOR_EVER, figure};

const REGION: &str = "region/default/us-east-1";

/// Launches an instance outside Fleetwright, with the tags of `like` except for the claim and, if
/// given, the cluster's UID.
fn stray(environment: &Environment, like: &v1::Instance, claim: &str, uid: Option<&str>) {
    let option = v1::Override { instance_type: like.instance_type.clone(), zone: like.zone.clone() };
    environment.launch(v1::LaunchRequest {
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

fn alive(ledger: &v1::ReadLedgerResponse, claim: &str) -> bool {
    let sales = ledger.sales.iter().filter(|sale| sale.instance.as_ref().is_some_and(|machine| machine.claim == claim));
    sales.into_iter().any(|sale| sale.ended_ms.is_none())
}

fn gone(environment: &Environment, claim: &str) {
    environment.wait_until_ledger(&format!("the end of {claim}"), |ledger| (!alive(ledger, claim)).then_some(()));
}

/// Waits for so many further listings.
fn listings(environment: &Environment, more: u64) {
    let count = |ledger: &v1::ReadLedgerResponse| ledger.calls.get("List").copied().unwrap_or(0);
    let before = count(&environment.ledger());
    environment.wait_until_ledger("further listings", |ledger| (count(ledger) >= before + more).then_some(()));
}

#[test]
fn a_machine_that_nobody_has_goes_whoever_lists_and_whoever_decides() {
    let test = "a_machine_that_nobody_has_goes_whoever_lists_and_whoever_decides";
    let Some(environment) = Environment::start(test, FOR_EVER, &[]) else { return };
    let lister = environment.wait_until_lease(REGION, |_| true);
    environment.proxy.set_target(environment.second.grpc);
    let agent = environment.agent("shop");
    let owner = environment.wait_until_lease("cluster/shop", |_| true);
    assert_ne!(owner.owner, lister.owner, "one lists, the other decides");
    let like = environment.wait_until_ledger("a machine of the cluster's own", |ledger| {
        let last = ledger.sales.iter().rfind(|sale| sale.ended_ms.is_none())?;
        last.instance.clone()
    });
    environment.wait_until_fleet(&environment.second, "every pod on a machine", |fleet| {
        fleet_of(fleet, "shop").is_some_and(|cluster| cluster["pending"] == 0 && cluster["machines"][0].is_object())
    });

    // Failed lists prove nothing, however often they fail.
    let failing = |percent| v1::SetFaultProfileRequest {
        failed_lists_percent: Some(percent),
        ..v1::SetFaultProfileRequest::default()
    };
    environment.set_faults(failing(100));
    stray(&environment, &like, "stray-1", None);
    stray(&environment, &like, "foreign-1", Some("another cluster of this name"));
    // Four listings are two collection periods.
    listings(&environment, 4);
    assert!(alive(&environment.ledger(), "stray-1"));
    environment.set_faults(failing(0));
    let begun = environment.database_now();
    gone(&environment, "stray-1");
    figure(&format!("a machine that nobody has was given back after {:.1} s", environment.database_now() - begun));

    // The listing server stops; the owner of the cluster lists from now on.
    environment.first.signal(Signal::Terminate);
    let successor = environment.wait_until_lease(REGION, |lease| lease.epoch > lister.epoch);
    assert_eq!(successor.owner, owner.owner);
    stray(&environment, &like, "stray-2", None);
    gone(&environment, "stray-2");

    let ledger = environment.ledger();
    assert!(alive(&ledger, "foreign-1"), "a machine with another cluster's UID is never touched");
    let cluster = environment.lease("cluster/shop");
    assert_eq!((cluster.epoch, cluster.owner), (owner.epoch, owner.owner), "its cluster stayed where it was");
    assert!(
        environment.second.lines().iter().any(|line| line.contains("another cluster of this name")),
        "but it is reported"
    );
    assert_eq!(environment.double_launches(), Vec::<String>::new());
    drop(agent);
}
