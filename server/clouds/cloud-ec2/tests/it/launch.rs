//! Launches.

use std::sync::Arc;

use cloud::provider::{CloudError, CloudProvider, InstanceState, LaunchRequest, Override};
use model::{CapacityType, LaunchFailure, Millis, Text};

use super::account::client;
use super::endpoint::Endpoint;
use super::{NOW, adapter, adapter_at, connect, option, order, template_input};

/// Deletes the launch templates of all orders, as an operator may.
async fn delete_templates(ec2: &Endpoint) {
    let client = client(ec2);
    for call in ec2.requests("CreateLaunchTemplate") {
        client.delete_launch_template().launch_template_name(&call["LaunchTemplateName"]).send().await.unwrap();
    }
}

#[tokio::test]
async fn a_launch_is_one_instant_fleet_with_ownership_tags() {
    let (ec2, cloud) = connect().await;
    let launched = cloud.launch(&order("web-abcde")).await.unwrap().instance;
    assert_eq!(launched.provider_id.as_ref(), format!("aws:///eu-west-1b/{}", launched.id));
    assert_eq!((launched.instance_type.as_ref(), launched.capacity_type), ("m5.large", CapacityType::Spot));
    assert_eq!((launched.state, launched.launched), (InstanceState::Pending, NOW));
    let form = ec2.requests("CreateFleet").remove(0);
    // Parameter names are those of EC2's API reference for CreateFleet.
    for (name, value) in [
        ("Action", "CreateFleet"),
        ("Version", "2016-11-15"),
        ("Type", "instant"),
        ("TargetCapacitySpecification.TotalTargetCapacity", "1"),
        ("TargetCapacitySpecification.DefaultTargetCapacityType", "spot"),
        ("SpotOptions.AllocationStrategy", "price-capacity-optimized"),
        ("LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version", "1"),
        ("LaunchTemplateConfigs.1.Overrides.1.ImageId", "ami-nodes"),
        ("LaunchTemplateConfigs.1.Overrides.1.InstanceType", "m5.large"),
        ("LaunchTemplateConfigs.1.Overrides.1.AvailabilityZone", "eu-west-1b"),
        ("LaunchTemplateConfigs.1.Overrides.1.SubnetId", "subnet-b"),
        ("LaunchTemplateConfigs.1.Overrides.2.InstanceType", "c5.large"),
        ("TagSpecification.1.ResourceType", "instance"),
        ("TagSpecification.2.ResourceType", "volume"),
        ("TagSpecification.1.Tag.3.Key", "fleetwright.dev/cluster-uid"),
        ("TagSpecification.3.ResourceType", "fleet"),
        ("TagSpecification.1.Tag.9.Key", "fleetwright.dev/nodeclaim"),
        ("TagSpecification.1.Tag.9.Value", "web-abcde"),
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
    let requests = ec2.requests("CreateFleet");
    assert_eq!(requests[0], requests[1]);
    assert_eq!(ec2.launched_count(), 1);
}

/// The NodeClass selects another subnet and image between a call and its response.
#[tokio::test]
async fn a_changed_node_class_between_call_and_retry_launches_no_second_instance() {
    let (ec2, before) = connect().await;
    let after = adapter(ec2.url());
    // The row written before the call.
    let mut row = order("web-abcde");
    row.terms = before.terms(&row);
    let launched = before.launch(&order("web-abcde")).await.unwrap().instance;
    let mut changed = template_input();
    changed.instance_types.values_mut().for_each(|kind| kind.image = Text::from("ami-9"));
    row.template = Some(Arc::new(changed));
    let again = after.launch(&row).await.unwrap().instance;
    assert_eq!(again, launched);
    let requests = ec2.requests("CreateFleet");
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert_eq!(requests[0], requests[1], "the same bytes");
    // Without its terms the order is another request, and the instance is found by its tags.
    let bare = LaunchRequest { terms: Text::default(), ..row };
    let found = adapter(ec2.url()).launch(&bare).await.unwrap().instance;
    assert_eq!((found.id, found.claim), (launched.id, launched.claim));
    assert_eq!(ec2.launched_count(), 1);
}

/// A repetition in the same process is the same request, although the subnets' addresses have changed.
#[tokio::test]
async fn an_order_keeps_its_terms_until_its_outcome_is_known() {
    let (ec2, cloud) = connect().await;
    let recorded = cloud.terms(&order("web-abcde"));
    ec2.fail("CreateFleet", 0, "InternalError");
    cloud.launch(&order("web-abcde")).await.unwrap_err();
    let mut changed = template_input();
    changed.instance_types.values_mut().for_each(|kind| kind.image = Text::from("ami-9"));
    let repeated = LaunchRequest { template: Some(Arc::new(changed)), ..order("web-abcde") };
    assert_eq!(cloud.terms(&repeated), recorded);
    cloud.launch(&repeated).await.unwrap();
    let requests = ec2.requests("CreateFleet");
    assert_eq!(requests[0], requests[1], "the same bytes");
}

#[tokio::test]
async fn equal_launches_share_a_template_and_an_idle_one_is_deleted() {
    let (ec2, cloud) = connect().await;
    cloud.launch(&order("a")).await.unwrap();
    cloud.launch(&order("b")).await.unwrap();
    let calls = ec2.requests("CreateLaunchTemplate");
    assert_eq!(calls.len(), 1, "{calls:?}");
    // Parameter names are those of EC2's API reference for CreateLaunchTemplate.
    for (name, value) in [
        ("LaunchTemplateData.ImageId", "ami-nodes"),
        ("LaunchTemplateData.IamInstanceProfile.Name", "c1_nodes"),
        ("LaunchTemplateData.NetworkInterface.1.SecurityGroupId.1", "sg-1"),
        ("LaunchTemplateData.NetworkInterface.1.DeviceIndex", "0"),
        ("LaunchTemplateData.BlockDeviceMapping.1.DeviceName", "/dev/xvda"),
        ("LaunchTemplateData.BlockDeviceMapping.1.Ebs.VolumeSize", "20"),
        ("LaunchTemplateData.BlockDeviceMapping.1.Ebs.Encrypted", "true"),
        ("LaunchTemplateData.BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
        ("LaunchTemplateData.MetadataOptions.HttpTokens", "required"),
        ("LaunchTemplateData.MetadataOptions.HttpPutResponseHopLimit", "1"),
        ("LaunchTemplateData.MetadataOptions.InstanceMetadataTags", "disabled"),
        ("LaunchTemplateData.Monitoring.Enabled", "false"),
        ("LaunchTemplateData.Placement.Tenancy", "default"),
        ("LaunchTemplateData.CapacityReservationSpecification.CapacityReservationPreference", "none"),
        ("LaunchTemplateData.TagSpecification.1.ResourceType", "network-interface"),
        ("LaunchTemplateData.TagSpecification.2.ResourceType", "spot-instances-request"),
        ("TagSpecification.1.ResourceType", "launch-template"),
    ] {
        assert_eq!(calls[0].get(name).map(String::as_str), Some(value), "{name}: {:#?}", calls[0]);
    }
    assert_eq!(cloud.collect_launch_templates().await, Ok(Vec::new()));
    let later = adapter_at(ec2.url(), || NOW + Millis::from_hours(2));
    later.launch(&order("c")).await.unwrap();
    assert_eq!(ec2.requests("CreateLaunchTemplate").len(), 2, "another process finds that it exists");
}

#[tokio::test]
async fn a_deleted_template_is_made_again_for_the_next_attempt() {
    let (ec2, cloud) = connect().await;
    cloud.launch(&order("a")).await.unwrap();
    delete_templates(&ec2).await;
    let failure = cloud.launch(&order("b")).await.unwrap_err().as_launch_failure();
    assert!(matches!(failure, Some(LaunchFailure::Refused { retryable: true, .. })), "{failure:?}");
    let next = LaunchRequest { token: Text::from("b-2"), ..order("b") };
    cloud.launch(&next).await.unwrap();
    assert_eq!(ec2.launched_count(), 2);
}

/// The process that recorded the order died before it made the template.
#[tokio::test]
async fn a_recorded_order_makes_its_template_while_the_node_class_says_the_same() {
    let (ec2, before) = connect().await;
    let row = LaunchRequest { terms: before.terms(&order("a")), ..order("a") };
    let bare = LaunchRequest { template: None, ..row.clone() };
    let refused = adapter(ec2.url()).launch(&bare).await.unwrap_err();
    assert!(matches!(refused.as_launch_failure(), Some(LaunchFailure::Refused { retryable: true, .. })), "{refused}");
    adapter(ec2.url()).launch(&row).await.unwrap();
    let made = ec2.calls().iter().filter(|call| call.action == "CreateLaunchTemplate").count();
    assert_eq!((ec2.launched_count(), made), (1, 1));
}

/// An operator deletes the template between a call whose answer was lost and its repetition.
#[tokio::test]
async fn a_repetition_without_its_template_finds_the_instance() {
    let (ec2, cloud) = connect().await;
    let mut row = order("a");
    row.terms = cloud.terms(&row);
    let first = cloud.launch(&order("a")).await.unwrap().instance;
    ec2.ignore_tokens();
    delete_templates(&ec2).await;
    row.template = None;
    let again = adapter(ec2.url()).launch(&row).await.unwrap().instance;
    assert_eq!(again.id, first.id);
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
    assert_eq!(outcome.instance.zone, "eu-west-1a");
    assert_eq!(outcome.unavailable, [option("m5.large", "eu-west-1b").without_capacity()]);
}

#[tokio::test]
async fn an_order_without_capacity_launches_nothing_and_reports_its_overrides() {
    let (ec2, cloud) = connect().await;
    ec2.exhaust("m5.large", "eu-west-1b");
    ec2.exhaust("c5.large", "eu-west-1a");
    let unavailable = order("web-abcde").overrides.iter().map(Override::without_capacity).collect();
    assert_eq!(cloud.launch(&order("web-abcde")).await, Err(CloudError::InsufficientCapacity { unavailable }));
    assert_eq!(ec2.launched_count(), 0);
}

#[tokio::test]
async fn a_capacity_error_of_a_call_concerns_every_override() {
    let (ec2, cloud) = connect().await;
    ec2.fail("CreateFleet", 0, "InsufficientInstanceCapacity");
    let unavailable = order("web-abcde").overrides.iter().map(Override::without_capacity).collect();
    assert_eq!(cloud.launch(&order("web-abcde")).await, Err(CloudError::InsufficientCapacity { unavailable }));
}

#[tokio::test]
async fn a_throttled_call_is_not_retried() {
    let (ec2, cloud) = connect().await;
    ec2.fail("CreateFleet", 0, "RequestLimitExceeded");
    let throttled = CloudError::RequestLimitExceeded { retry_after_ms: 1_000 };
    assert_eq!(cloud.launch(&order("web-abcde")).await, Err(throttled));
    assert_eq!(ec2.requests("CreateFleet").len(), 1);
    assert!(cloud.launch(&order("web-abcde")).await.is_ok());
}

#[tokio::test]
async fn a_refusal_has_the_cloud_s_code_and_message_and_what_to_do() {
    let (ec2, cloud) = connect().await;
    ec2.fail("CreateFleet", 0, "UnauthorizedOperation");
    assert_eq!(
        cloud.launch(&order("web-abcde")).await.unwrap_err().to_string(),
        "the cloud refuses CreateFleet: UnauthorizedOperation: an injected failure: allow the action in the policy of the \
         server's role (deploy/aws), and check permission boundaries and service control policies"
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
    // Connections to the port of a closed listener are rejected.
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let lost = adapter(format!("http://{closed}")).launch(&order("web-abcde")).await.unwrap_err();
    assert!(
        matches!(&lost, CloudError::Unknown { operation } if operation.starts_with("CreateLaunchTemplate")),
        "{lost}"
    );
}
