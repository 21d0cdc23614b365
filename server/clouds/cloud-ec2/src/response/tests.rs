use aws_sdk_ec2::types::{InstanceType, LaunchTemplateAndOverridesResponse};
use model::{CapacityType, RefusalCause};

use super::*;
use crate::testing::{option, order, terms};

const OPTIONS: [(&str, &str); 3] = [("m5.large", "eu-west-1a"), ("m5.large", "eu-west-1b"), ("c5.large", "eu-west-1a")];

fn options() -> Vec<Override> {
    OPTIONS.map(|(kind, zone)| option(kind, zone)).into()
}

/// Options by place, each refused with this code.
fn refused(options: &[(usize, &str)]) -> Vec<RefusedOption> {
    options.iter().map(|(at, code)| refused_option(&option(OPTIONS[*at].0, OPTIONS[*at].1), code)).collect()
}

fn overrides(kind: &str, zone: &str) -> LaunchTemplateAndOverridesResponse {
    let overrides =
        FleetLaunchTemplateOverrides::builder().instance_type(InstanceType::from(kind)).availability_zone(zone);
    LaunchTemplateAndOverridesResponse::builder().overrides(overrides.build()).build()
}

fn error(code: &str, about: Option<usize>) -> CreateFleetError {
    let about = about.map(|index| overrides(OPTIONS[index].0, OPTIONS[index].1));
    let error = CreateFleetError::builder().error_code(code).error_message("words");
    error.set_launch_template_and_overrides(about).build()
}

fn machine(id: &str, kind: &str, zone: &str) -> CreateFleetInstance {
    CreateFleetInstance::builder().launch_template_and_overrides(overrides(kind, zone)).instance_ids(id).build()
}

fn read(instances: Vec<CreateFleetInstance>, errors: Vec<CreateFleetError>) -> Result<LaunchOutcome, CloudError> {
    let answer = CreateFleetOutput::builder().set_instances(Some(instances)).set_errors(Some(errors)).build();
    let request = order(CapacityType::Spot, &options());
    let terms = terms(&request);
    outcome(
        &answer,
        RequestContext { request: &request, offered: &options(), terms: &terms, now: Timestamp::from_millis(5) },
    )
}

#[test]
fn an_instance_has_the_order_s_names_and_the_override_s_zone() {
    let outcome = read(vec![machine("i-1", "c5.large", "eu-west-1a")], Vec::new()).unwrap();
    let machine = &outcome.instance;
    assert_eq!(machine.provider_id.as_ref(), "aws:///eu-west-1a/i-1");
    assert_eq!(
        (machine.claim.as_ref(), machine.pool.as_ref(), machine.launched),
        ("web-abcde", "web", Timestamp::from_millis(5))
    );
    assert_eq!((machine.state, machine.capacity_type), (InstanceState::Pending, CapacityType::Spot));
    assert_eq!(outcome.unavailable, []);
}

#[test]
fn errors_beside_an_instance_name_unavailable_overrides() {
    let errors = vec![
        error("InsufficientInstanceCapacity", Some(1)),
        error("InsufficientInstanceCapacity", Some(0)),
        error("UnfulfillableCapacity", Some(0)),
        error("InternalError", Some(2)),
    ];
    let outcome = read(vec![machine("i-1", "c5.large", "eu-west-1a")], errors).unwrap();
    assert_eq!(outcome.instance.instance_type.as_ref(), "c5.large");
    // Best first, each once; the internal error does not concern capacity.
    assert_eq!(
        outcome.unavailable,
        refused(&[(0, "InsufficientInstanceCapacity"), (1, "InsufficientInstanceCapacity")])
    );
}

#[test]
fn a_missing_zone_is_derived_from_the_subnet() {
    let overrides = FleetLaunchTemplateOverrides::builder().subnet_id("subnet-b").build();
    let both = LaunchTemplateAndOverridesResponse::builder().overrides(overrides).build();
    let kind = InstanceType::from("m5.large");
    let group = CreateFleetInstance::builder().launch_template_and_overrides(both).instance_type(kind);
    let outcome = read(vec![group.instance_ids("i-2").build()], Vec::new()).unwrap();
    assert_eq!(outcome.instance.provider_id.as_ref(), "aws:///eu-west-1b/i-2");
}

#[test]
fn an_instance_without_type_or_zone_is_an_unknown_outcome() {
    let group = CreateFleetInstance::builder().instance_ids("i-3").build();
    let error = read(vec![group], Vec::new()).unwrap_err();
    assert!(matches!(&error, CloudError::Unknown { operation } if operation.contains("i-3")), "{error}");
}

#[test]
fn capacity_errors_name_exactly_their_overrides() {
    let errors = vec![error("VcpuLimitExceeded", Some(2)), error("InsufficientFreeAddressesInSubnet", Some(0))];
    let unavailable = refused(&[(0, "InsufficientFreeAddressesInSubnet"), (2, "VcpuLimitExceeded")]);
    assert!(unavailable.iter().all(|option| option.cause == RefusalCause::Account), "{unavailable:?}");
    assert_eq!(read(Vec::new(), errors), Err(CloudError::InsufficientCapacity { unavailable }));
}

#[test]
fn an_error_without_an_override_concerns_every_override() {
    let everything = |code| {
        let unavailable = refused(&[0, 1, 2].map(|option| (option, code)));
        Err(CloudError::InsufficientCapacity { unavailable })
    };
    assert_eq!(read(Vec::new(), vec![error("VcpuLimitExceeded", None)]), everything("VcpuLimitExceeded"));
    assert_eq!(read(Vec::new(), Vec::new()), everything("UnfulfillableCapacity"));
    let role = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
    assert_eq!(read(Vec::new(), vec![error(role, Some(1))]), everything(role));
}

#[test]
fn any_other_error_without_an_instance_is_a_refusal() {
    let errors = vec![error("InsufficientInstanceCapacity", Some(0)), error("InvalidAMIID.NotFound", Some(1))];
    assert_eq!(
        read(Vec::new(), errors).unwrap_err().to_string(),
        "the cloud refuses CreateFleet: InvalidAMIID.NotFound: words: select an image of this region in \
         spec.amiSelectorTerms of the EC2NodeClass"
    );
}
