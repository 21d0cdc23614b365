//! What comes of a launch.

use cloud::provider::{CloudError, CloudProvider, InstanceState, LaunchRequest};
use engine::control::LaunchFailure;
use engine::model::{CapacityType, Text};

use super::{NOW, adapter, adapter_by, both, option, order, settings};

#[tokio::test]
async fn a_launch_is_one_instant_fleet_that_says_whose_machine_it_is() {
    let (ec2, cloud) = both().await;
    let bought = cloud.launch(&order("web-abcde")).await.unwrap().instance;
    assert_eq!(bought.provider_id.as_ref(), "aws:///eu-west-1b/i-1");
    assert_eq!((bought.instance_type.as_ref(), bought.capacity_type), ("m5.large", CapacityType::Spot));
    assert_eq!((bought.state, bought.launched), (InstanceState::Pending, NOW));
    let form = ec2.heard().remove(0);
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
async fn the_same_order_sent_again_is_the_same_request_and_the_same_machine() {
    let (ec2, cloud) = both().await;
    let first = cloud.launch(&order("web-abcde")).await.unwrap();
    let again = cloud.launch(&order("web-abcde")).await.unwrap();
    assert_eq!(first, again);
    let heard = ec2.heard();
    assert_eq!(heard[0], heard[1]);
    assert_eq!(ec2.sold(), 1);
}

/// A subnet is added, and the launch template gets another version, between a call and its answer.
#[tokio::test]
async fn settings_that_change_between_a_call_and_its_answer_buy_no_second_machine() {
    let (ec2, before) = both().await;
    let mut settings = settings(ec2.endpoint());
    settings.template.version = "8".to_owned();
    settings.subnets.insert("eu-west-1a".to_owned(), "subnet-new".to_owned());
    let after = adapter_by(settings);
    // The row that is written before the call.
    let mut row = order("web-abcde");
    row.terms = before.terms(&row);
    let bought = before.launch(&row).await.unwrap().instance;
    let again = after.launch(&row).await.unwrap().instance;
    assert_eq!(again, bought);
    let heard = ec2.heard();
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(heard[0], heard[1], "the same bytes");
    // A row of an older program has no terms: the request differs, and the machine is found by its tags.
    let bare = LaunchRequest { terms: Text::default(), ..row };
    let found = after.launch(&bare).await.unwrap().instance;
    assert_eq!((found.id, found.claim), (bought.id, bought.claim));
    assert_eq!(ec2.sold(), 1);
}

#[tokio::test]
async fn a_token_with_another_order_buys_nothing_and_finds_the_machine_of_the_first() {
    let (ec2, cloud) = both().await;
    let first = cloud.launch(&order("web-abcde")).await.unwrap().instance;
    let mut other = order("web-abcde");
    other.overrides.pop();
    assert_eq!(cloud.launch(&other).await.unwrap().instance.id, first.id);
    // A machine of another cluster that has the NodeClaim's name is none of ours.
    let mismatch = CloudError::IdempotentParameterMismatch { token: Text::from("web-abcde-1") };
    let namesake = LaunchRequest { cluster_uid: Text::from("uid-2"), ..order("web-abcde") };
    assert_eq!(cloud.launch(&namesake).await, Err(mismatch.clone()));
    // It is gone meanwhile: nothing is known of what the first call did, and no further attempt is made.
    ec2.end(&first.id);
    let refused = cloud.launch(&other).await.unwrap_err();
    assert_eq!(refused, mismatch);
    let failure = refused.as_launch_failure();
    assert!(matches!(failure, Some(LaunchFailure::Refused { retryable: false, .. })), "{failure:?}");
    assert_eq!(ec2.sold(), 1);
}

#[tokio::test]
async fn what_is_sold_out_is_told_beside_the_machine_that_was_to_be_had() {
    let (ec2, cloud) = both().await;
    ec2.sell_out("m5.large", "eu-west-1b");
    let outcome = cloud.launch(&order("web-abcde")).await.unwrap();
    assert_eq!(outcome.instance.provider_id.as_ref(), "aws:///eu-west-1a/i-1");
    assert_eq!(outcome.sold_out, [option("m5.large", "eu-west-1b")]);
}

#[tokio::test]
async fn an_order_without_any_capacity_buys_nothing_and_tells_its_options() {
    let (ec2, cloud) = both().await;
    ec2.sell_out("m5.large", "eu-west-1b");
    ec2.sell_out("c5.large", "eu-west-1a");
    let sold_out = order("web-abcde").overrides;
    assert_eq!(cloud.launch(&order("web-abcde")).await, Err(CloudError::NoCapacity { sold_out }));
    assert_eq!(ec2.sold(), 0);
}

#[tokio::test]
async fn a_call_that_fails_for_want_of_capacity_is_about_every_option() {
    let (ec2, cloud) = both().await;
    ec2.fail_next(500, "InsufficientInstanceCapacity");
    let sold_out = order("web-abcde").overrides;
    assert_eq!(cloud.launch(&order("web-abcde")).await, Err(CloudError::NoCapacity { sold_out }));
}

#[tokio::test]
async fn a_throttled_call_is_not_repeated_in_here() {
    let (ec2, cloud) = both().await;
    ec2.fail_next(503, "RequestLimitExceeded");
    let throttled = CloudError::RequestLimitExceeded { retry_after_ms: 1_000 };
    assert_eq!(cloud.launch(&order("web-abcde")).await, Err(throttled));
    assert_eq!(ec2.heard().len(), 1);
    assert!(cloud.launch(&order("web-abcde")).await.is_ok());
}

#[tokio::test]
async fn a_refusal_has_the_cloud_s_code_and_words() {
    let (ec2, cloud) = both().await;
    ec2.fail_next(403, "UnauthorizedOperation");
    assert_eq!(
        cloud.launch(&order("web-abcde")).await.unwrap_err().to_string(),
        "the cloud refuses CreateFleet: UnauthorizedOperation: the stand-in was told to fail"
    );
}

#[tokio::test]
async fn an_internal_error_and_a_lost_connection_leave_it_open_what_was_done() {
    let (ec2, cloud) = both().await;
    ec2.fail_next(500, "InternalError");
    let internal = cloud.launch(&order("web-abcde")).await.unwrap_err();
    assert!(
        matches!(&internal, CloudError::Unknown { operation } if operation.contains("InternalError")),
        "{internal}"
    );
    // Nobody listens where a listener has just been closed.
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let lost = adapter(format!("http://{closed}")).launch(&order("web-abcde")).await.unwrap_err();
    assert!(matches!(&lost, CloudError::Unknown { operation } if operation.starts_with("CreateFleet")), "{lost}");
}
