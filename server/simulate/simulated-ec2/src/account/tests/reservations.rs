use super::*;
use crate::settings::Reservation;

const ID: &str = "cr-0123456789abcdef0";

/// An account with one reservation of two `m5.large` in zone a, and a template that targets it.
fn with(change: impl FnOnce(&mut Reservation), market: Option<&str>) -> Fixture {
    Fixture::with(|settings| {
        let mut reservation = Reservation::targeted(ID, "m5.large", "eu-west-1a", 2, &settings.account);
        change(&mut reservation);
        settings.reservations.push(reservation);
        let data = &mut settings.launch_templates[0].data;
        let option = |name: &str| format!("CapacityReservationSpecification.{name}");
        data.insert(option("CapacityReservationPreference"), "capacity-reservations-only".to_owned());
        data.insert(option("CapacityReservationTarget.CapacityReservationId"), ID.to_owned());
        data.extend(market.map(|market| ("InstanceMarketOptions.MarketType".to_owned(), market.to_owned())));
    })
}

fn launch(ec2: &mut Fixture, kind: &str, total: u32) -> (usize, Vec<String>) {
    let options = "&ReservedCapacityOptions.ReservationType.1=interruptible-capacity-reservation";
    let form = fleet_form(kind, total, &["InstanceType=m5.large&AvailabilityZone=eu-west-1a"]);
    let form = if kind == "reserved-capacity" { form + options } else { form };
    let answer = ec2.call("CreateFleet", &form).unwrap();
    (groups(&answer).first().map_or(0, |(_, count)| *count), errors(&answer))
}

fn free(ec2: &mut Fixture) -> String {
    ec2.call("DescribeCapacityReservations", "").unwrap().text("capacityReservationSet/0/availableInstanceCount")
}

#[test]
fn a_targeted_reservation_is_used_up_and_freed() {
    let mut ec2 = with(|_| {}, None);
    assert_eq!(launch(&mut ec2, "on-demand", 3), (2, vec!["ReservationCapacityExceeded".to_owned()]));
    assert_eq!(free(&mut ec2), "0");
    let described = ec2.call("DescribeInstances", "").unwrap();
    assert_eq!(described.text("reservationSet/0/instancesSet/0/capacityReservationId"), ID);
    let id = described.text("reservationSet/0/instancesSet/0/instanceId");
    assert_eq!(ec2.cloud.describe(&id).unwrap().capacity_type, model::CapacityType::Reserved);
    ec2.call("TerminateInstances", &format!("InstanceId.1={id}")).unwrap();
    ec2.wait(SHUTDOWN_MS);
    assert_eq!(free(&mut ec2), "1");
}

#[test]
fn each_kind_of_reservation_has_its_own_capacity_type_and_market() {
    let block = |r: &mut Reservation| r.capacity_block = true;
    let interruptible = |r: &mut Reservation| r.interruptible = true;
    for (change, market, kind, launched) in [
        ((|_| {}) as fn(&mut Reservation), None, "on-demand", true),
        (block, None, "on-demand", false),
        (block, Some("capacity-block"), "on-demand", false),
        (interruptible, Some("interruptible-capacity-reservation"), "reserved-capacity", true),
        (interruptible, None, "on-demand", false),
    ] {
        let mut ec2 = with(change, market);
        assert_eq!(launch(&mut ec2, kind, 1).0 == 1, launched, "{market:?} {kind}");
    }
}

#[test]
fn a_reservation_of_other_machines_or_that_has_ended_is_not_used() {
    for (change, code) in [
        ((|r| r.zone = "eu-west-1b".to_owned()) as fn(&mut Reservation), "InvalidParameterValue"),
        (|r| r.id = "cr-1".to_owned(), "InvalidCapacityReservationId.NotFound"),
        (|r| r.ends_ms = Some(START), "ReservationCapacityExceeded"),
    ] {
        let mut ec2 = with(change, None);
        assert_eq!(launch(&mut ec2, "on-demand", 1), (0, vec![code.to_owned()]), "{code}");
    }
}

#[test]
fn an_open_reservation_is_used_unless_the_launch_says_none() {
    for (preference, left) in [(None, "1"), (Some("open"), "1"), (Some("none"), "2")] {
        let mut ec2 = Fixture::with(|settings| {
            let mut reservation = Reservation::targeted(ID, "m5.large", "eu-west-1a", 2, &settings.account);
            reservation.targeted = false;
            settings.reservations.push(reservation);
            let name = "CapacityReservationSpecification.CapacityReservationPreference";
            settings.launch_templates[0].data.extend(preference.map(|value: &str| (name.to_owned(), value.to_owned())));
        });
        assert_eq!(launch(&mut ec2, "on-demand", 1), (1, Vec::new()));
        assert_eq!(free(&mut ec2), left, "{preference:?}");
    }
}

#[test]
fn an_unknown_reservation_and_filters_are_answered_as_by_ec2() {
    let mut ec2 = with(|_| {}, None);
    assert_eq!(
        ec2.code("DescribeCapacityReservations", "CapacityReservationId.1=cr-1"),
        "InvalidCapacityReservationId.NotFound"
    );
    let count = |ec2: &mut Fixture, filter: &str| {
        ec2.call("DescribeCapacityReservations", filter).unwrap().items("capacityReservationSet").len()
    };
    for (filter, expected) in [
        ("state&Filter.1.Value.1=active", 1),
        ("state&Filter.1.Value.1=expired", 0),
        ("instance-match-criteria&Filter.1.Value.1=open", 0),
    ] {
        assert_eq!(count(&mut ec2, &format!("Filter.1.Name={filter}")), expected, "{filter}");
    }
}
