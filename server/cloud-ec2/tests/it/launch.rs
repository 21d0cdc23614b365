//! Launches.

use cloud::provider::{CloudError, CloudProvider, InstanceState, LaunchRequest};
use model::{CapacityType, LaunchFailure, Text};
use simulated_ec2::{Effect, Outcome};

use super::{NOW, adapter, adapter_by, connect, option, order, settings};

#[tokio::test]
async fn a_launch_is_one_instant_fleet_with_ownership_tags() {
    let (ec2, cloud) = connect().await;
    let launched = cloud.launch(&order("web-abcde")).await.unwrap().instance;
    assert_eq!(launched.provider_id.as_ref(), format!("aws:///eu-west-1b/{}", launched.id));
    assert_eq!((launched.instance_type.as_ref(), launched.capacity_type), ("m5.large", CapacityType::Spot));
    assert_eq!((launched.state, launched.launched), (InstanceState::Pending, NOW));
    let form = ec2.requests().remove(0);
    // Parameter names are those of EC2's API reference for CreateFleet.
    for (name, value) in [
        ("Action", "CreateFleet"),
        ("Version", "2016-11-15"),
        ("Type", "instant"),
        ("TargetCapacitySpecification.TotalTargetCapacity", "1"),
        ("TargetCapacitySpecification.DefaultTargetCapacityType", "spot"),
        ("SpotOptions.AllocationStrategy", "price-capacity-optimized"),
        ("LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName", "nodes"),
        ("LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version", "7"),
        ("LaunchTemplateConfigs.1.Overrides.1.InstanceType", "m5.large"),
        ("LaunchTemplateConfigs.1.Overrides.1.AvailabilityZone", "eu-west-1b"),
        ("LaunchTemplateConfigs.1.Overrides.1.SubnetId", "subnet-b"),
        ("LaunchTemplateConfigs.1.Overrides.2.InstanceType", "c5.large"),
        ("TagSpecification.1.ResourceType", "instance"),
        ("TagSpecification.2.ResourceType", "volume"),
        ("TagSpecification.1.Tag.3.Key", "fleetwright.dev/cluster-uid"),
        ("TagSpecification.1.Tag.4.Key", "fleetwright.dev/nodeclaim"),
        ("TagSpecification.1.Tag.4.Value", "web-abcde"),
    ] {
        assert_eq!(form.get(name).map(String::as_str), Some(value), "{name}");
    }
    // A double has several spellings.
    let priority = |number: u8| form[&format!("LaunchTemplateConfigs.1.Overrides.{number}.Priority")].parse::<f64>();
    assert_eq!([priority(1), priority(2)], [Ok(0.0), Ok(1.0)]);
}

#[tokio::test]
async fn a_repeated_order_is_the_same_request_and_the_same_instance() {
    let (ec2, cloud) = connect().await;
    let first = cloud.launch(&order("web-abcde")).await.unwrap();
    let again = cloud.launch(&order("web-abcde")).await.unwrap();
    assert_eq!(first, again);
    let requests = ec2.requests();
    assert_eq!(requests[0], requests[1]);
    assert_eq!(ec2.launched_count(), 1);
}

/// A subnet is added and the template version changes between a call and its response.
#[tokio::test]
async fn changed_settings_between_call_and_retry_launch_no_second_instance() {
    let (ec2, before) = connect().await;
    let mut settings = settings(ec2.url());
    settings.template.version = "8".to_owned();
    settings.subnets.insert("eu-west-1a".to_owned(), "subnet-new".to_owned());
    let after = adapter_by(settings);
    // The row written before the call.
    let mut row = order("web-abcde");
    row.terms = before.terms(&row);
    let launched = before.launch(&row).await.unwrap().instance;
    let again = after.launch(&row).await.unwrap().instance;
    assert_eq!(again, launched);
    let requests = ec2.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert_eq!(requests[0], requests[1], "the same bytes");
    // A row of an older release has no terms: the request differs, and the instance is found by its
    // tags.
    let bare = LaunchRequest { terms: Text::default(), ..row };
    let found = after.launch(&bare).await.unwrap().instance;
    assert_eq!((found.id, found.claim), (launched.id, launched.claim));
    assert_eq!(ec2.launched_count(), 1);
}

#[tokio::test]
async fn a_token_with_another_order_finds_the_first_instance() {
    let (ec2, cloud) = connect().await;
    let first = cloud.launch(&order("web-abcde")).await.unwrap().instance;
    let mut other = order("web-abcde");
    other.overrides.pop();
    assert_eq!(cloud.launch(&other).await.unwrap().instance.id, first.id);
    // An instance of another cluster with the same NodeClaim name is not ours.
    let mismatch = CloudError::IdempotentParameterMismatch { token: Text::from("web-abcde-1") };
    let namesake = LaunchRequest { cluster_uid: Text::from("uid-2"), ..order("web-abcde") };
    assert_eq!(cloud.launch(&namesake).await, Err(mismatch.clone()));
    // It is terminated meanwhile: the outcome of the first call is unknown, and no further attempt
    // is made.
    ec2.end(&first.id);
    let refused = cloud.launch(&other).await.unwrap_err();
    assert_eq!(refused, mismatch);
    let failure = refused.as_launch_failure();
    assert!(matches!(failure, Some(LaunchFailure::Refused { retryable: false, .. })), "{failure:?}");
    assert_eq!(ec2.launched_count(), 1);
}

#[tokio::test]
async fn unavailable_overrides_are_reported_beside_the_instance() {
    let (ec2, cloud) = connect().await;
    ec2.exhaust("m5.large", "eu-west-1b");
    let outcome = cloud.launch(&order("web-abcde")).await.unwrap();
    assert_eq!((outcome.instance.zone.as_ref(), outcome.instance.instance_type.as_ref()), ("eu-west-1a", "c5.large"));
    assert_eq!(outcome.unavailable, [option("m5.large", "eu-west-1b")]);
}

#[tokio::test]
async fn an_order_without_capacity_launches_nothing_and_reports_its_overrides() {
    let (ec2, cloud) = connect().await;
    ec2.exhaust("m5.large", "eu-west-1b");
    ec2.exhaust("c5.large", "eu-west-1a");
    let unavailable = order("web-abcde").overrides;
    assert_eq!(cloud.launch(&order("web-abcde")).await, Err(CloudError::InsufficientCapacity { unavailable }));
    assert_eq!(ec2.launched_count(), 0);
}

#[tokio::test]
async fn a_capacity_error_of_a_call_concerns_every_override() {
    let (ec2, cloud) = connect().await;
    ec2.fail("CreateFleet", 0, "InsufficientInstanceCapacity");
    let unavailable = order("web-abcde").overrides;
    assert_eq!(cloud.launch(&order("web-abcde")).await, Err(CloudError::InsufficientCapacity { unavailable }));
}

#[tokio::test]
async fn a_throttled_call_is_not_retried() {
    let (ec2, cloud) = connect().await;
    ec2.fail("CreateFleet", 0, "RequestLimitExceeded");
    let throttled = CloudError::RequestLimitExceeded { retry_after_ms: 1_000 };
    assert_eq!(cloud.launch(&order("web-abcde")).await, Err(throttled));
    assert_eq!(ec2.requests().len(), 1);
    assert!(cloud.launch(&order("web-abcde")).await.is_ok());
}

#[tokio::test]
async fn a_refusal_has_the_cloud_s_code_and_message() {
    let (ec2, cloud) = connect().await;
    ec2.fail("CreateFleet", 0, "UnauthorizedOperation");
    assert_eq!(
        cloud.launch(&order("web-abcde")).await.unwrap_err().to_string(),
        "the cloud refuses CreateFleet: UnauthorizedOperation: an injected failure"
    );
}

#[tokio::test]
async fn an_internal_error_and_a_lost_connection_are_unknown_outcomes() {
    let (ec2, cloud) = connect().await;
    ec2.fail("CreateFleet", 0, "InternalError");
    let internal = cloud.launch(&order("web-abcde")).await.unwrap_err();
    assert!(
        matches!(&internal, CloudError::Unknown { operation } if operation.contains("InternalError")),
        "{internal}"
    );
    for effect in [Effect::CutBefore, Effect::CutAfter] {
        ec2.cut("CreateFleet", effect);
        let lost = cloud.launch(&order("web-cut")).await.unwrap_err();
        assert!(matches!(&lost, CloudError::Unknown { operation } if operation.starts_with("CreateFleet")), "{lost}");
    }
    // Connections to the port of a closed listener are rejected.
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let lost = adapter(format!("http://{closed}")).launch(&order("web-abcde")).await.unwrap_err();
    assert!(matches!(&lost, CloudError::Unknown { operation } if operation.starts_with("CreateFleet")), "{lost}");
}

#[tokio::test]
async fn a_launch_whose_response_was_lost_is_found_by_repeating_the_order() {
    let (ec2, cloud) = connect().await;
    ec2.cut("CreateFleet", Effect::CutAfter);
    let lost = cloud.launch(&order("web-abcde")).await.unwrap_err();
    assert!(matches!(lost, CloudError::Unknown { .. }), "{lost}");
    assert_eq!(ec2.launched_count(), 1);
    let found = cloud.launch(&order("web-abcde")).await.unwrap().instance;
    assert_eq!(ec2.launched_count(), 1);
    let calls = ec2.calls();
    assert_eq!(calls[0].outcome, Outcome::Cut { executed: true });
    assert_eq!(calls[0].fleet.as_ref().map(|fleet| fleet.instances.clone()), Some(vec![found.id.to_string()]));
    assert_eq!(
        calls[1].fleet.as_ref().map(|fleet| &fleet.instances),
        calls[0].fleet.as_ref().map(|fleet| &fleet.instances)
    );
}
