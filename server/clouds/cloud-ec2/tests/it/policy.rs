//! The policies in `deploy/aws` beside the calls that are made.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cloud::catalogue::Snapshot;
use cloud::provider::{CloudProvider, Owner};
use cloud_ec2::Ec2Cloud;
use cloud_ec2::discovery::CatalogueRefresher;
use model::interruption::InterruptionKind;
use model::node_class::{InstanceIdentity, NodeClassQuery, ReservationTerm};
use model::{Millis, Timestamp};
use serde_json::Value;
use simulated_ec2::{AccountSettings, Call};

use super::endpoint::Endpoint;
use super::node_class::with_spec;
use super::roles::{roles_of, with_roles};
use super::{NOW, adapter, adapter_at, adapter_by, order};

/// Rights that a call needs beside its own action: a fleet runs instances and tags what it creates, and gives instances
/// the role of their profile.
const IMPLIED: [&str; 3] = ["ec2:CreateTags", "ec2:RunInstances", "iam:PassRole"];

/// Actions that a policy in `deploy/aws` allows.
fn allowed(policy: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/aws").join(policy);
    let policy: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let list = |value: &Value| match value {
        Value::Array(all) => all.iter().map(|one| one.as_str().unwrap().to_owned()).collect(),
        one => vec![one.as_str().unwrap().to_owned()],
    };
    policy["Statement"].as_array().unwrap().iter().flat_map(|statement| list(&statement["Action"])).collect()
}

/// Rights that sessions with tags need beside AssumeRole.
const IMPLIED_BY_TAGS: &str = "sts:TagSession";

/// IAM actions of the calls that reached the endpoint, after the first `skip`. The right for a batch is that for one.
fn called(ec2: &Endpoint, skip: usize, by: impl Fn(&Call) -> bool) -> BTreeSet<String> {
    let name = |action: &str| if action == "DeleteMessageBatch" { "DeleteMessage" } else { action }.to_owned();
    ec2.calls()
        .iter()
        .skip(skip)
        .filter(|call| by(call))
        .map(|call| format!("{}:{}", call.service, name(&call.action)))
        .collect()
}

/// A class that selects by alias, tags and reservation id, and whose instance profile the server makes.
fn query(tag: &str) -> NodeClassQuery {
    with_spec(|spec| {
        spec.identity = InstanceIdentity::Role("KarpenterNodeRole-c1".into());
        spec.reservation_terms = vec![ReservationTerm { id: Some("cr-1".into()), ..ReservationTerm::default() }];
        spec.tags = [("team".into(), tag.into())].into();
    })
}

/// Minutes since [`NOW`] in the first test.
static MINUTES: AtomicI64 = AtomicI64::new(0);

fn clock() -> Timestamp {
    NOW + Millis::from_mins(MINUTES.load(Ordering::SeqCst))
}

/// Makes every call that a server makes.
async fn serve(ec2: &Endpoint, cloud: &Ec2Cloud, other: &Ec2Cloud) {
    let launched = cloud.launch(&order("a")).await.unwrap().instance;
    cloud.resolve_node_class(&query("web")).await;
    // Another process finds the profile without the tag of today.
    other.resolve_node_class(&query("shop")).await;
    cloud.list_all().await.unwrap();
    let cluster = "c1".into();
    cloud.terminate(&launched.id, Owner { cluster: &cluster, uid: "uid-1" }).await.unwrap();
    cloud.status_notices().await.unwrap();
    cloud.shown_notices(&[(launched.id.clone(), InterruptionKind::SpotInterrupted)]).await.unwrap();
    ec2.end(&launched.id);
    let queue = cloud.interruption_queue("fleetwright");
    let received = queue.receive(Duration::from_secs(10)).await.unwrap();
    assert!(!received.is_empty(), "the end of the instance is announced");
    queue.delete(&received).await.unwrap();
    cloud.collect_launch_templates().await.unwrap();
    MINUTES.store(90, Ordering::SeqCst);
    ec2.wait(Duration::from_secs(90 * 60));
    assert_eq!(cloud.collect_launch_templates().await.unwrap().len(), 1);
    let builtin = Snapshot::builtin().unwrap();
    CatalogueRefresher::new("eu-west-1", "server", builtin.clone(), &super::prices::INTERVALS)
        .refresh(cloud, builtin)
        .await;
}

/// One at a time: they have one clock.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test]
async fn the_policy_of_the_server_allows_exactly_the_calls_that_it_makes() {
    let _turn = TURN.lock().await;
    MINUTES.store(0, Ordering::SeqCst);
    let ec2 = Endpoint::with(require_access_entries).await;
    let cloud = adapter_at(ec2.url(), clock);
    cloud.queue_setup("fleetwright").apply(|_| ()).await.unwrap();
    let setup = ec2.calls().len();
    serve(&ec2, &cloud, &adapter(ec2.url())).await;
    let mut made = called(&ec2, setup, |_| true);
    made.extend(IMPLIED.map(str::to_owned));
    assert_eq!(made, allowed("server-policy.json"));
}

fn require_access_entries(account: &mut AccountSettings) {
    account.clusters.iter_mut().for_each(|cluster| cluster.authentication_mode = "API".to_owned());
}

/// With roles that have these policies, which the endpoint enforces.
#[tokio::test]
async fn the_policies_of_roles_allow_exactly_the_calls_that_are_made_with_each() {
    let _turn = TURN.lock().await;
    MINUTES.store(0, Ordering::SeqCst);
    let ec2 = Endpoint::with(|account| {
        require_access_entries(account);
        account.roles.extend(roles_of(&["c1"]));
    })
    .await;
    adapter(ec2.url()).queue_setup("fleetwright").apply(|_| ()).await.unwrap();
    let setup = ec2.calls().len();
    let [cloud, other] = [clock, || NOW].map(|clock| adapter_by(with_roles(ec2.url()), clock));
    serve(&ec2, &cloud, &other).await;
    let made_by = |role: Option<&str>| called(&ec2, setup, |call| call.role.as_deref() == role);
    let with = |mut made: BTreeSet<String>, implied: &[&str]| {
        made.extend(implied.iter().map(|&action| action.to_owned()));
        made
    };
    assert_eq!(with(made_by(None), &[IMPLIED_BY_TAGS]), allowed("server-roles-policy.json"));
    assert_eq!(made_by(Some("fleetwright-account")), allowed("account-role-policy.json"));
    assert_eq!(with(made_by(Some("fleetwright-c1")), &IMPLIED), allowed("cluster-role-policy.json"));
    assert_eq!(allowed("role-trust-policy.json"), allowed("server-roles-policy.json"));
}

#[tokio::test]
async fn the_policy_of_the_setup_allows_exactly_the_calls_that_it_makes() {
    let ec2 = Endpoint::start().await;
    let setup = adapter(ec2.url()).queue_setup("fleetwright");
    setup.pending().await.unwrap();
    setup.apply(|_| ()).await.unwrap();
    setup.removable().await.unwrap();
    setup.undo(|_| ()).await.unwrap();
    assert_eq!(called(&ec2, 0, |_| true), allowed("setup-policy.json"));
}
