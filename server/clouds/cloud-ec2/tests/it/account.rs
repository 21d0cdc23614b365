//! The simulated EC2 as the SDK reads it: every field that an answer has arrives.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::{
    ArchitectureValues, CapacityReservationPreference, CapacityReservationTarget, DefaultTargetCapacityType, Filter,
    FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest, FleetLaunchTemplateSpecificationRequest,
    FleetType, Image, InstanceType, LaunchTemplateCapacityReservationSpecificationRequest,
    LaunchTemplateHttpTokensState, LaunchTemplateIamInstanceProfileSpecificationRequest,
    LaunchTemplateInstanceMetadataOptionsRequest, LaunchTemplateInstanceNetworkInterfaceSpecificationRequest,
    RequestLaunchTemplateData, ResourceType, Tag, TagSpecification, TargetCapacitySpecificationRequest,
};
use simulated_ec2::Reservation;

use super::endpoint::{Endpoint, http_client};

const RESERVATION: &str = "cr-0123456789abcdef0";

async fn connect() -> (Endpoint, Client) {
    let ec2 = Endpoint::start().await;
    let client = client(&ec2);
    (ec2, client)
}

pub(crate) fn client(ec2: &Endpoint) -> Client {
    let config = aws_sdk_ec2::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("AKIDTEST", "secret", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .endpoint_url(ec2.url())
        .http_client(http_client());
    Client::from_conf(config.build())
}

fn code<T, E: ProvideErrorMetadata, R>(result: Result<T, SdkError<E, R>>) -> Option<String> {
    result.err()?.as_service_error()?.code().map(str::to_owned)
}

fn filter(name: &str, value: &str) -> Filter {
    Filter::builder().name(name).values(value).build()
}

fn tag(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).build()
}

/// A template as a NodeClass has it, with a reservation as its target.
fn template_data(image: &str) -> RequestLaunchTemplateData {
    let reservation = LaunchTemplateCapacityReservationSpecificationRequest::builder()
        .capacity_reservation_preference(CapacityReservationPreference::CapacityReservationsOnly)
        .capacity_reservation_target(CapacityReservationTarget::builder().capacity_reservation_id(RESERVATION).build());
    let interface = LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .device_index(0)
        .groups("sg-0a1b2c3d4e5f60002")
        .ipv4_prefix_count(1);
    let metadata = LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_tokens(LaunchTemplateHttpTokensState::Required)
        .http_put_response_hop_limit(2);
    RequestLaunchTemplateData::builder()
        .image_id(image)
        .user_data("dGVzdA==")
        .iam_instance_profile(LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name("nodes").build())
        .metadata_options(metadata.build())
        .network_interfaces(interface.build())
        .capacity_reservation_specification(reservation.build())
        .build()
}

async fn create_template(client: &Client, name: &str, data: RequestLaunchTemplateData) -> Option<String> {
    let tags =
        TagSpecification::builder().resource_type(ResourceType::LaunchTemplate).tags(tag("owner", "test")).build();
    let call = client.create_launch_template().launch_template_name(name).launch_template_data(data);
    code(call.tag_specifications(tags).send().await)
}

/// A fleet of `m5.large` in zones a and b, of `total` instances.
async fn create_fleet(
    client: &Client,
    template: &str,
    total: i32,
) -> aws_sdk_ec2::operation::create_fleet::CreateFleetOutput {
    let specification =
        FleetLaunchTemplateSpecificationRequest::builder().launch_template_name(template).version("$Latest").build();
    let option = |(subnet, priority): (&str, f64)| {
        FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(InstanceType::M5Large)
            .subnet_id(subnet)
            .priority(priority)
            .build()
    };
    let config = FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(specification)
        .set_overrides(Some([("subnet-a", 0.107), ("subnet-b", 0.108)].map(option).into()));
    let target = TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(total)
        .default_target_capacity_type(DefaultTargetCapacityType::OnDemand);
    let tags = TagSpecification::builder().resource_type(ResourceType::Instance).tags(tag("claim", "web-1")).build();
    let call = client.create_fleet().r#type(FleetType::Instant).launch_template_configs(config.build());
    call.target_capacity_specification(target.build()).tag_specifications(tags).send().await.unwrap()
}

/// Image of the templates of the account.
async fn image(client: &Client) -> String {
    let found = client.describe_images().owners("amazon").send().await.unwrap();
    let is_x86 = |image: &&Image| image.architecture() == Some(&ArchitectureValues::X8664);
    found.images().iter().find(is_x86).unwrap().image_id().unwrap().to_owned()
}

fn add_reservation(ec2: &Endpoint) {
    ec2.change_account(|account| {
        let of_account = Reservation::targeted(RESERVATION, "m5.large", "eu-west-1a", 2, &account.account);
        account.reservations.push(of_account);
    });
}

#[tokio::test]
async fn a_reserved_fleet_has_instances_and_errors_with_their_overrides() {
    let (ec2, client) = connect().await;
    add_reservation(&ec2);
    let image = image(&client).await;
    assert_eq!(create_template(&client, "reserved", template_data(&image)).await, None);
    let fleet = create_fleet(&client, "reserved", 3).await;
    let group = &fleet.instances()[0];
    assert_eq!((fleet.instances().len(), group.instance_ids().len()), (1, 2));
    assert_eq!(group.instance_type(), Some(&InstanceType::M5Large));
    let overrides = group.launch_template_and_overrides().unwrap().overrides().unwrap();
    assert_eq!((overrides.subnet_id(), overrides.priority()), (Some("subnet-a"), Some(0.107)));
    // Zone b has another zone than the reservation, and zone a has no third instance.
    let errors: Vec<_> = fleet
        .errors()
        .iter()
        .map(|error| {
            let overrides = error.launch_template_and_overrides().unwrap().overrides().unwrap();
            (overrides.subnet_id().unwrap(), error.error_code().unwrap())
        })
        .collect();
    assert_eq!(errors, [("subnet-a", "ReservationCapacityExceeded"), ("subnet-b", "InvalidParameterValue")]);
    let reservations = client.describe_capacity_reservations().filters(filter("state", "active")).send().await.unwrap();
    let reservation = &reservations.capacity_reservations()[0];
    assert_eq!((reservation.total_instance_count(), reservation.available_instance_count()), (Some(2), Some(0)));

    let described = client.describe_instances().filters(filter("tag:claim", "web-1")).send().await.unwrap();
    let first = Some(group.instance_ids()[0].as_str());
    let mut instances = described.reservations().iter().flat_map(|reservation| reservation.instances());
    let instance = instances.find(|instance| instance.instance_id() == first).unwrap();
    assert_eq!(instance.image_id(), Some(image.as_str()));
    assert_eq!((instance.subnet_id(), instance.private_ip_address()), (Some("subnet-a"), Some("10.0.0.4")));
    assert_eq!(instance.security_groups()[0].group_id(), Some("sg-0a1b2c3d4e5f60002"));
    assert_eq!(instance.capacity_reservation_id(), Some(RESERVATION));
    // Two instances with an address and a prefix of sixteen each, of 251.
    let subnets = client.describe_subnets().filters(filter("subnet-id", "subnet-a")).send().await.unwrap();
    assert_eq!(subnets.subnets()[0].available_ip_address_count(), Some(251 - 2 * 17));
}

#[tokio::test]
async fn templates_are_created_found_and_deleted() {
    let (_ec2, client) = connect().await;
    let data = || RequestLaunchTemplateData::builder().image_id("ami-1").build();
    assert_eq!(create_template(&client, "t/1", data()).await, None);
    let again = create_template(&client, "t/1", data()).await;
    assert_eq!(again.as_deref(), Some("InvalidLaunchTemplateName.AlreadyExistsException"));
    let too_long = RequestLaunchTemplateData::builder().user_data("A".repeat(21_848)).build();
    assert_eq!(create_template(&client, "t/2", too_long).await.as_deref(), Some("InvalidParameterValue"));
    let found = client.describe_launch_templates().filters(filter("tag:owner", "test")).send().await.unwrap();
    let template = &found.launch_templates()[0];
    assert_eq!((template.launch_template_name(), template.latest_version_number()), (Some("t/1"), Some(1)));
    assert!(template.create_time().is_some());
    client.delete_launch_template().launch_template_name("t/1").send().await.unwrap();
    let missing = code(client.delete_launch_template().launch_template_name("t/1").send().await);
    assert_eq!(missing.as_deref(), Some("InvalidLaunchTemplateName.NotFoundException"));
}

#[tokio::test]
async fn refused_calls_have_the_codes_of_ec2() {
    let (ec2, client) = connect().await;
    ec2.fail("DescribeImages", 0, "UnauthorizedOperation");
    assert_eq!(code(client.describe_images().send().await).as_deref(), Some("UnauthorizedOperation"));
    let tagged = client.create_tags().resources("i-1").tags(tag("Name", "x")).send().await;
    assert_eq!(code(tagged).as_deref(), Some("InvalidInstanceID.NotFound"));
    // What is not simulated is refused, never ignored.
    assert_eq!(code(client.describe_images().image_ids("ami-1").send().await).as_deref(), Some("UnknownParameter"));
    assert_eq!(code(client.describe_placement_groups().send().await).as_deref(), Some("InvalidAction"));
}

#[tokio::test]
async fn the_network_and_images_of_the_account_are_read() {
    let (_ec2, client) = connect().await;
    let discovery = filter("tag:karpenter.sh/discovery", "c1");
    let groups = client.describe_security_groups().filters(discovery).send().await.unwrap();
    assert_eq!(groups.security_groups()[0].group_name(), Some("c1-nodes"));
    let zones = client.describe_availability_zones().send().await.unwrap();
    assert_eq!(zones.availability_zones()[1].zone_id(), Some("euw1-az2"));
    let named =
        client.describe_images().include_deprecated(true).filters(filter("name", "bottlerocket-aws-k8s-1.34-*"));
    let images = named.send().await.unwrap();
    // Two architectures, with and without NVIDIA, three releases.
    assert_eq!(images.images().len(), 12);
    assert!(images.images().iter().all(|image| image.deprecation_time().is_some() && image.creation_date().is_some()));
}

#[tokio::test]
async fn the_state_of_an_instance_is_read() {
    let (ec2, client) = connect().await;
    let fleet = create_fleet(&client, "nodes", 1).await;
    let id = fleet.instances()[0].instance_ids()[0].clone();
    let pending = client.describe_instance_status().send().await.unwrap();
    assert!(pending.instance_statuses().is_empty());
    ec2.boot();
    let running = client.describe_instance_status().send().await.unwrap();
    assert_eq!(running.instance_statuses()[0].instance_id(), Some(id.as_str()));
    assert_eq!(running.instance_statuses()[0].system_status().unwrap().status().unwrap().as_str(), "ok");
    client.create_tags().resources(&id).tags(tag("Name", "node-1")).send().await.unwrap();
    let named = client.describe_instances().filters(filter("tag:Name", "node-1")).send().await.unwrap();
    assert_eq!(named.reservations()[0].instances()[0].instance_id(), Some(id.as_str()));
    let ended = client.terminate_instances().instance_ids(&id).send().await.unwrap();
    assert_eq!(ended.terminating_instances()[0].current_state().unwrap().name().unwrap().as_str(), "shutting-down");
}
