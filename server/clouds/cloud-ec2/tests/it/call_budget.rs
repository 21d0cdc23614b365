//! Every call of EC2 takes a token, each page too, and throttled calls are reported.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex};

use cloud::provider::{CloudError, CloudProvider, Owner};
use cloud_ec2::call_budget::BudgetFuture;
use cloud_ec2::{CallBudget, Credentials, Ec2Cloud, NotSent, Settings};
use model::node_class::InstanceIdentity;

use super::endpoint::Endpoint;
use super::node_class::with_spec;
use super::roles::{roles_of, with_roles};
use super::{NOW, order, settings};

/// Admits all calls, or none, and counts both.
#[derive(Debug, Default)]
struct CountingBudget {
    refusal: Option<NotSent>,
    admitted: Mutex<BTreeMap<String, usize>>,
    throttled: Mutex<Vec<String>>,
}

impl CallBudget for CountingBudget {
    fn admit<'a>(&'a self, action: &'a str) -> BudgetFuture<'a, Result<(), NotSent>> {
        *self.admitted.lock().unwrap().entry(action.to_owned()).or_default() += 1;
        Box::pin(ready(self.refusal.map_or(Ok(()), Err)))
    }

    fn record_throttle<'a>(&'a self, action: &'a str) -> BudgetFuture<'a, ()> {
        self.throttled.lock().unwrap().push(action.to_owned());
        Box::pin(ready(()))
    }
}

async fn connect(refusal: Option<NotSent>) -> (Endpoint, Arc<CountingBudget>, Ec2Cloud) {
    let ec2 = Endpoint::start().await;
    let (budget, cloud) = within(settings(ec2.url()), refusal);
    (ec2, budget, cloud)
}

fn within(settings: Settings, refusal: Option<NotSent>) -> (Arc<CountingBudget>, Ec2Cloud) {
    let budget = Arc::new(CountingBudget { refusal, ..CountingBudget::default() });
    let credentials = Credentials::new("AKIDTEST", "secret", None, None, "test");
    let given = Arc::clone(&budget) as Arc<dyn CallBudget>;
    let cloud = Ec2Cloud::with_credentials_within(settings, credentials, || NOW, given);
    (budget, cloud)
}

/// EC2's calls that reached the endpoint, by action.
fn sent(ec2: &Endpoint) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for call in ec2.calls().into_iter().filter(|call| call.service == "ec2") {
        *counts.entry(call.action).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn every_call_of_ec2_and_every_page_takes_a_token() {
    let (ec2, budget, cloud) = connect(None).await;
    let first = cloud.launch(&order("a")).await.unwrap().instance;
    cloud.launch(&order("b")).await.unwrap();
    ec2.page_by(1);
    assert_eq!(cloud.list_all().await.unwrap().len(), 2);
    let query = with_spec(|spec| spec.identity = InstanceIdentity::Role("KarpenterNodeRole-c1".into()));
    cloud.resolve_node_class(&query).await;
    cloud.status_notices().await.unwrap();
    let cluster = "c1".into();
    cloud.terminate(&first.id, Owner { cluster: &cluster, uid: "uid-1" }).await.unwrap();
    let sent = sent(&ec2);
    assert_eq!(*budget.admitted.lock().unwrap(), sent);
    // Two pages of one, and the owner of the instance.
    assert_eq!((sent["CreateFleet"], sent["DescribeInstances"], sent["TerminateInstances"]), (2, 3, 1), "{sent:?}");
}

/// The limits are those of account and region, whichever session a call is made in.
#[tokio::test]
async fn sessions_of_clusters_share_the_tokens_of_their_account() {
    let ec2 = Endpoint::with(|account| account.roles.extend(roles_of(&["c1"]))).await;
    let (budget, cloud) = within(with_roles(ec2.url()), None);
    cloud.launch(&order("a")).await.unwrap();
    ec2.fail("CreateFleet", 0, "RequestLimitExceeded");
    cloud.launch(&order("b")).await.unwrap_err();
    cloud.list_all().await.unwrap();
    let admitted = budget.admitted.lock().unwrap().clone();
    assert_eq!(admitted, sent(&ec2));
    assert_eq!((admitted["CreateFleet"], admitted["DescribeInstances"]), (2, 1));
    assert_eq!(*budget.throttled.lock().unwrap(), ["CreateFleet"]);
    let roles: Vec<_> =
        ec2.calls().into_iter().filter(|call| call.action == "CreateFleet").map(|call| call.role).collect();
    assert_eq!(roles, [Some("fleetwright-c1".to_owned()), Some("fleetwright-c1".to_owned())]);
}

#[tokio::test]
async fn a_call_without_a_token_is_not_sent_and_may_be_made_again() {
    let (ec2, budget, cloud) = connect(Some(NotSent::NoToken)).await;
    let error = cloud.launch(&order("a")).await.unwrap_err();
    assert!(matches!(error, CloudError::RequestLimitExceeded { .. }), "{error}");
    assert_eq!(sent(&ec2), BTreeMap::new());
    assert!(budget.throttled.lock().unwrap().is_empty(), "EC2 has throttled nothing");
}

#[tokio::test]
async fn a_call_whose_lease_has_ended_is_not_sent() {
    let (ec2, _, cloud) = connect(Some(NotSent::LeaseExpired)).await;
    let error = cloud.launch(&order("a")).await.unwrap_err();
    assert!(error.to_string().contains("lease may have run out"), "{error}");
    assert!(error.as_launch_failure().is_none(), "the order may be launched by its next owner");
    assert_eq!(sent(&ec2), BTreeMap::new());
}

#[tokio::test]
async fn a_throttled_call_is_reported_and_another_error_is_not() {
    let (ec2, budget, cloud) = connect(None).await;
    ec2.fail("CreateFleet", 0, "RequestLimitExceeded");
    let error = cloud.launch(&order("a")).await.unwrap_err();
    assert!(matches!(error, CloudError::RequestLimitExceeded { .. }), "{error}");
    assert_eq!(*budget.throttled.lock().unwrap(), ["CreateFleet"]);
    ec2.fail("CreateFleet", 0, "UnauthorizedOperation");
    let error = cloud.launch(&order("b")).await.unwrap_err();
    assert!(matches!(error, CloudError::Refused { .. }), "{error}");
    assert_eq!(budget.throttled.lock().unwrap().len(), 1);
}
