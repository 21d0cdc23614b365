//! One server lists the cloud's instances, another owns the cluster: orphaned instances are
//! terminated, also after leases have changed their owner.

use e2e::Signal;
use fleetwright_proto::simulation::v1;

use super::environment::{Environment, fleet_of};
use super::{FOR_EVER, figure};

const REGION: &str = "region/default/us-east-1";

/// Launches an instance outside Fleetwright, with the tags of `like` except for the claim and, if
/// given, the cluster's UID.
fn launch_orphan(environment: &Environment, like: &v1::Instance, claim: &str, uid: Option<&str>) {
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

fn is_running(ledger: &v1::ReadLedgerResponse, claim: &str) -> bool {
    let entries =
        ledger.entries.iter().filter(|entry| entry.instance.as_ref().is_some_and(|machine| machine.claim == claim));
    entries.into_iter().any(|entry| entry.ended_ms.is_none())
}

fn wait_until_terminated(environment: &Environment, claim: &str) {
    environment
        .wait_until_ledger(&format!("the termination of {claim}"), |ledger| (!is_running(ledger, claim)).then_some(()));
}

/// Waits for so many further listings.
fn listings(environment: &Environment, more: u64) {
    let count = |ledger: &v1::ReadLedgerResponse| ledger.calls.get("List").copied().unwrap_or(0);
    let before = count(&environment.ledger());
    environment.wait_until_ledger("further listings", |ledger| (count(ledger) >= before + more).then_some(()));
}

#[test]
fn an_orphaned_instance_is_terminated_whichever_replicas_list_and_decide() {
    let test = "an_orphaned_instance_is_terminated_whichever_replicas_list_and_decide";
    let Some(environment) = Environment::start(test, FOR_EVER, &[]) else { return };
    let lister = environment.wait_until_lease(REGION, |_| true);
    environment.proxy.set_target(environment.second.grpc);
    let agent = environment.agent("shop");
    let owner = environment.wait_until_lease("cluster/shop", |_| true);
    assert_ne!(owner.owner, lister.owner, "one replica lists, the other decides");
    let like = environment.wait_until_ledger("an instance of the cluster", |ledger| {
        let last = ledger.entries.iter().rfind(|entry| entry.ended_ms.is_none())?;
        last.instance.clone()
    });
    environment.wait_until_fleet(&environment.second, "no pending pods", |fleet| {
        fleet_of(fleet, "shop")
            .is_some_and(|cluster| cluster["pendingPodCount"] == 0 && cluster["machineCount"].as_u64() > Some(0))
    });

    // A failed listing is no evidence that an instance is orphaned.
    let failing = |percent| v1::SetFaultProfileRequest {
        failed_lists_percent: Some(percent),
        ..v1::SetFaultProfileRequest::default()
    };
    environment.set_faults(failing(100));
    launch_orphan(&environment, &like, "orphan-1", None);
    launch_orphan(&environment, &like, "foreign-1", Some("another cluster of this name"));
    // Four listings are two collection periods.
    listings(&environment, 4);
    assert!(is_running(&environment.ledger(), "orphan-1"));
    environment.set_faults(failing(0));
    let begun = environment.database_now();
    wait_until_terminated(&environment, "orphan-1");
    figure(&format!("an orphaned instance was terminated after {:.1} s", environment.database_now() - begun));

    // The listing server stops; the owner of the cluster lists from now on.
    environment.first.signal(Signal::Terminate);
    let successor = environment.wait_until_lease(REGION, |lease| lease.epoch > lister.epoch);
    assert_eq!(successor.owner, owner.owner);
    launch_orphan(&environment, &like, "orphan-2", None);
    wait_until_terminated(&environment, "orphan-2");

    let ledger = environment.ledger();
    assert!(is_running(&ledger, "foreign-1"), "an instance with another cluster's UID is not terminated");
    let cluster = environment.lease("cluster/shop");
    assert_eq!((cluster.epoch, cluster.owner), (owner.epoch, owner.owner), "the lease of the cluster is unchanged");
    assert!(
        environment.second.lines().iter().any(|line| line.contains("another cluster of this name")),
        "but it is reported"
    );
    assert_eq!(environment.double_launches(), Vec::<String>::new());
    drop(agent);
}
