use aws_sdk_ec2::operation::create_fleet::CreateFleetInput;

use super::*;
use crate::testing::{option, order, terms};

fn built(request: &LaunchRequest) -> CreateFleetInput {
    fleet(request, &terms(request)).unwrap().call.build().unwrap()
}

fn two_zones(capacity_type: CapacityType) -> LaunchRequest {
    order(capacity_type, &[option("m5.large", "eu-west-1b"), option("c5.large", "eu-west-1a")])
}

#[test]
fn overrides_keep_their_rank_and_get_their_zone_s_subnet() {
    let input = built(&two_zones(CapacityType::Spot));
    let config = &input.launch_template_configs()[0];
    let template = config.launch_template_specification().unwrap();
    assert_eq!(template.version(), Some("1"));
    assert_eq!(template.launch_template_name(), Some(terms(&two_zones(CapacityType::Spot)).templates[0].name.as_str()));
    let reported: Vec<_> = config
        .overrides()
        .iter()
        .map(|o| (o.instance_type().unwrap().as_str(), o.subnet_id().unwrap(), o.priority().unwrap()))
        .collect();
    assert_eq!(reported, [("m5.large", "subnet-b", 0.0), ("c5.large", "subnet-a", 1.0)]);
    assert!(config.overrides().iter().all(|o| o.image_id() == Some("ami-1")));
}

/// An arm64 type boots another image: a template of its own, and the ranks run over both.
#[test]
fn each_image_has_its_own_template() {
    let request = order(
        CapacityType::Spot,
        &[option("m5.large", "eu-west-1a"), option("m6g.large", "eu-west-1a"), option("c5.large", "eu-west-1a")],
    );
    let mut input = crate::testing::input();
    let arm = model::InstanceTypeInput { image: Text::from("ami-2"), ..input.instance_types["m5.large"].clone() };
    input.instance_types.insert("m6g.large".into(), arm);
    let resolved = crate::terms::Resolved::of(&request, &input, "eu-west-1", &Default::default());
    let call = fleet(&request, &resolved.terms).unwrap().call.build().unwrap();
    let ranks = |config: &FleetLaunchTemplateConfigRequest| -> Vec<(String, String, f64)> {
        let each = config.overrides().iter();
        each.map(|o| {
            let text = |text: Option<&str>| text.unwrap().to_owned();
            (text(o.instance_type().map(|kind| kind.as_str())), text(o.image_id()), o.priority().unwrap())
        })
        .collect()
    };
    let of = |kind: &str, image: &str, rank| (kind.to_owned(), image.to_owned(), rank);
    assert_eq!(
        call.launch_template_configs().iter().map(ranks).collect::<Vec<_>>(),
        [vec![of("m5.large", "ami-1", 0.0), of("c5.large", "ami-1", 2.0)], vec![of("m6g.large", "ami-2", 1.0)]]
    );
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
    let fleet = fleet(&request, &terms(&request)).unwrap();
    assert_eq!(fleet.offered, [option("m5.large", "eu-west-1a")]);
}

#[test]
fn an_order_without_any_subnet_names_its_zones() {
    let request = order(CapacityType::Spot, &[option("m5.large", "eu-west-1c"), option("c5.large", "eu-west-1c")]);
    assert_eq!(
        fleet(&request, &terms(&request)).unwrap_err().to_string(),
        "the cloud refuses CreateFleet: SubnetsNotFound: EC2NodeClass default selects no subnet in a zone of the order \
         (eu-west-1c); see its status.subnets and subnetSelectorTerms"
    );
}

#[test]
fn no_option_and_too_many_options_are_refused() {
    let code = |request: &LaunchRequest| match fleet(request, &terms(&two_zones(CapacityType::Spot))) {
        Err(CloudError::Refused { code, .. }) => Some(code.to_string()),
        _ => None,
    };
    assert_eq!(code(&order(CapacityType::Spot, &[])).as_deref(), Some("InvalidParameterValue"));
    let most = vec![option("m5.large", "eu-west-1a"); 60];
    assert_eq!(code(&order(CapacityType::Spot, &most)), None);
    let more = vec![option("m5.large", "eu-west-1a"); 61];
    assert_eq!(code(&order(CapacityType::Spot, &more)).as_deref(), Some("InvalidParameterValue"));
}

/// A reservation is named by the template; to the fleet it is on-demand capacity.
#[test]
fn reserved_capacity_is_targeted_by_its_template() {
    use model::node_class::{NodeClassStatus, ReservationEntry, ReservationStatus};
    let reserved = |kind: &str, interruptible| ReservationStatus {
        entry: ReservationEntry {
            id: Text::from("cr-1"),
            zone: "eu-west-1a".into(),
            instance_type: "m5.large".into(),
            expiring: false,
            reservation_type: Text::from(kind),
            interruptible,
            count: Some(3),
        },
        instance_match_criteria: Text::from("targeted"),
        owner_id: Text::from("123456789012"),
        end: None,
    };
    let request = LaunchRequest {
        reservation: Some(Text::from("cr-1")),
        ..order(CapacityType::Reserved, &[option("m5.large", "eu-west-1a")])
    };
    let resolve = |reservations: Vec<ReservationStatus>| {
        let mut input = crate::testing::input();
        let status = NodeClassStatus { reservations: Some(reservations), ..NodeClassStatus::clone(&input.status) };
        input.status = std::sync::Arc::new(status);
        crate::terms::Resolved::of(&request, &input, "eu-west-1", &Default::default())
    };
    let target = |resolved: &crate::terms::Resolved| {
        let call = fleet(&request, &resolved.terms).unwrap().call.build().unwrap();
        let target = call.target_capacity_specification().unwrap();
        target.default_target_capacity_type().unwrap().as_str().to_owned()
    };
    let plain = resolve(vec![reserved("default", false)]);
    assert_eq!(target(&plain), "on-demand");
    assert_eq!(plain.contents.values().next().unwrap().reservation.as_ref().unwrap().id, "cr-1");
    assert_eq!(target(&resolve(vec![reserved("default", true)])), "reserved-capacity");
    let refusal = |resolved: crate::terms::Resolved| match fleet(&request, &resolved.terms) {
        Err(CloudError::Refused { code, .. }) => code.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(resolve(vec![reserved("capacity-block", false)])), "CapacityBlock");
    assert_eq!(refusal(resolve(Vec::new())), "CapacityReservationNotFound");
}

#[test]
fn recorded_terms_reproduce_the_original_request() {
    let request = two_zones(CapacityType::Spot);
    let then = built(&request);
    let written = LaunchRequest { terms: terms(&request).to_text(), ..request.clone() };
    let again = Terms::parse(&written).unwrap();
    assert_eq!(fleet(&written, &again).unwrap().call.build().unwrap(), then);
    let odd = LaunchRequest { terms: Text::from("{"), ..request };
    let refusal = Terms::parse(&odd).unwrap_err().to_string();
    assert!(refusal.contains("UnreadableTerms") && refusal.contains("web-abcde"), "{refusal}");
}
