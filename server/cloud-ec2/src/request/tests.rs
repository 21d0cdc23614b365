use aws_sdk_ec2::operation::create_fleet::CreateFleetInput;

use super::*;
use crate::testing::{option, order, settings};

fn built(request: &LaunchRequest) -> CreateFleetInput {
    fleet(request, &settings()).unwrap().call.build().unwrap()
}

fn two_zones(capacity_type: CapacityType) -> LaunchRequest {
    order(capacity_type, &[option("m5.large", "eu-west-1b"), option("c5.large", "eu-west-1a")])
}

#[test]
fn overrides_keep_their_rank_and_get_their_zone_s_subnet() {
    let input = built(&two_zones(CapacityType::Spot));
    let config = &input.launch_template_configs()[0];
    let template = config.launch_template_specification().unwrap();
    assert_eq!((template.launch_template_name(), template.version()), (Some("nodes"), Some("7")));
    let reported: Vec<_> = config
        .overrides()
        .iter()
        .map(|o| (o.instance_type().unwrap().as_str(), o.subnet_id().unwrap(), o.priority().unwrap()))
        .collect();
    assert_eq!(reported, [("m5.large", "subnet-b", 0.0), ("c5.large", "subnet-a", 1.0)]);
}

#[test]
fn each_capacity_type_has_its_own_strategy() {
    let spot = built(&two_zones(CapacityType::Spot));
    let strategy = spot.spot_options().and_then(|options| options.allocation_strategy()).unwrap();
    assert_eq!((strategy.as_str(), spot.on_demand_options().is_some()), ("price-capacity-optimized", false));
    let on_demand = built(&two_zones(CapacityType::OnDemand));
    let strategy = on_demand.on_demand_options().and_then(|options| options.allocation_strategy()).unwrap();
    assert_eq!((strategy.as_str(), on_demand.spot_options().is_some()), ("lowest-price", false));
}

#[test]
fn one_instance_is_requested_instantly() {
    let input = built(&two_zones(CapacityType::OnDemand));
    let target = input.target_capacity_specification().unwrap();
    assert_eq!((input.r#type(), target.total_target_capacity()), (Some(&FleetType::Instant), Some(1)));
}

#[test]
fn the_same_order_makes_the_same_request() {
    assert_eq!(built(&two_zones(CapacityType::Spot)), built(&two_zones(CapacityType::Spot)));
}

#[test]
fn a_token_differs_by_attempt_and_by_cluster_and_fits_into_64_characters() {
    let first = two_zones(CapacityType::Spot);
    let second = LaunchRequest { token: Text::from("web-abcde-2"), ..first.clone() };
    let elsewhere = LaunchRequest { cluster: "c2".into(), ..first.clone() };
    let tokens = [&first, &second, &elsewhere].map(client_token);
    assert!(tokens[0] != tokens[1] && tokens[0] != tokens[2], "{tokens:?}");
    assert!(tokens.iter().all(|token| token.len() == 32 && token.bytes().all(|b| b.is_ascii_hexdigit())), "{tokens:?}");
}

#[test]
fn options_in_zones_without_a_subnet_are_left_out() {
    let request = order(CapacityType::Spot, &[option("m5.large", "eu-west-1c"), option("m5.large", "eu-west-1a")]);
    let fleet = fleet(&request, &settings()).unwrap();
    assert_eq!(fleet.offered, [option("m5.large", "eu-west-1a")]);
}

#[test]
fn an_order_without_any_subnet_names_its_zones() {
    let request = order(CapacityType::Spot, &[option("m5.large", "eu-west-1c"), option("c5.large", "eu-west-1c")]);
    assert_eq!(
        fleet(&request, &settings()).unwrap_err().to_string(),
        "the cloud refuses CreateFleet: NoSubnet: cloud.subnets names no subnet for any zone of the order (eu-west-1c)"
    );
}

#[test]
fn no_option_and_too_many_options_are_refused() {
    let code = |request: &LaunchRequest| match fleet(request, &settings()) {
        Err(CloudError::Refused { code, .. }) => Some(code.to_string()),
        _ => None,
    };
    assert_eq!(code(&order(CapacityType::Spot, &[])).as_deref(), Some("InvalidParameterValue"));
    let most = vec![option("m5.large", "eu-west-1a"); 60];
    assert_eq!(code(&order(CapacityType::Spot, &most)), None);
    let more = vec![option("m5.large", "eu-west-1a"); 61];
    assert_eq!(code(&order(CapacityType::Spot, &more)).as_deref(), Some("InvalidParameterValue"));
}

#[test]
fn reserved_capacity_is_refused_before_a_call() {
    let refusal = fleet(&two_zones(CapacityType::Reserved), &settings()).unwrap_err();
    assert!(matches!(&refusal, CloudError::Refused { code, .. } if code.as_ref() == "ReservedCapacity"), "{refusal}");
}

#[test]
fn recorded_terms_reproduce_the_original_request() {
    let request = two_zones(CapacityType::Spot);
    let then = built(&request);
    let written = LaunchRequest { terms: Terms::resolve(&request, &settings()).to_text(), ..request.clone() };
    assert_eq!(built(&written), then);
    let now = Settings {
        template: crate::settings::LaunchTemplate { name: "others".to_owned(), version: "8".to_owned() },
        subnets: [("eu-west-1a".to_owned(), "subnet-z".to_owned())].into(),
        ..settings()
    };
    let by = |request: &LaunchRequest| fleet(request, &now).unwrap().call.build().unwrap();
    assert_eq!(by(&written), then);
    assert_ne!(by(&request), then, "without terms, changed settings yield another request");
    let odd = LaunchRequest { terms: Text::from("{"), ..request };
    let refusal = fleet(&odd, &now).unwrap_err().to_string();
    assert!(refusal.contains("UnreadableTerms") && refusal.contains("web-abcde"), "{refusal}");
}
