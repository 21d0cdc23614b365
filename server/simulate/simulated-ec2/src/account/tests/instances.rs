use super::*;
use crate::faults::Lag;
use cloud::provider::{LaunchRequest, Override};
use model::interruption::InterruptionKind;
use model::{CapacityType, Text};

fn listed(ec2: &mut Fixture, form: &str) -> Vec<String> {
    ec2.call("DescribeInstances", form).unwrap().texts("reservationSet", "instancesSet/0/instanceId")
}

fn filter(name: &str, value: &str) -> String {
    format!("Filter.1.Name={name}&Filter.1.Value.1={value}")
}

#[test]
fn an_instance_is_described_through_its_life() {
    let mut ec2 = Fixture::new();
    let id = ec2.launch("m5.large", 1).remove(0);
    let state = |ec2: &mut Fixture| {
        ec2.call("DescribeInstances", &format!("InstanceId.1={id}"))
            .map_or_else(|error| error.code, |found| found.text("reservationSet/0/instancesSet/0/instanceState/name"))
    };
    assert_eq!(state(&mut ec2), "pending");
    ec2.wait(BOOT_MS);
    assert_eq!(state(&mut ec2), "running");
    let described = ec2.call("DescribeInstances", "").unwrap();
    for (field, value) in [
        ("instanceType", "m5.large"),
        ("imageId", &ec2.x86_image),
        ("subnetId", "subnet-0a1b2c3d4e5f60001"),
        ("privateIpAddress", "10.0.0.4"),
        ("placement/availabilityZone", "eu-west-1a"),
        ("placement/availabilityZoneId", "euw1-az1"),
        ("launchTime", "2026-09-01T00:00:00.000Z"),
        ("groupSet/0/groupId", "sg-0a1b2c3d4e5f60001"),
        ("instanceLifecycle", ""),
    ] {
        assert_eq!(described.text(&format!("reservationSet/0/instancesSet/0/{field}")), value, "{field}");
    }
    let ended = ec2.call("TerminateInstances", &format!("InstanceId.1={id}")).unwrap();
    let states = (ended.text("instancesSet/0/previousState/name"), ended.text("instancesSet/0/currentState/name"));
    assert_eq!(states, ("running".to_owned(), "shutting-down".to_owned()));
    ec2.wait(SHUTDOWN_MS);
    assert_eq!(state(&mut ec2), "terminated");
    ec2.wait(3_600_000);
    assert_eq!(state(&mut ec2), "terminated");
    ec2.wait(1);
    assert_eq!(state(&mut ec2), "InvalidInstanceID.NotFound");
}

#[test]
fn instances_are_found_by_filters_in_pages() {
    let mut ec2 = Fixture::new();
    let mut ids = [ec2.launch("m5.large", 2), ec2.launch("c5.large", 1)].concat();
    ids.sort();
    assert_eq!(listed(&mut ec2, ""), ids);
    assert_eq!(listed(&mut ec2, &filter("instance-type", "c5.*")).len(), 1);
    let named = format!("Filter.1.Name=instance-id&Filter.1.Value.1={}&Filter.1.Value.2={}", ids[2], ids[0]);
    assert_eq!(listed(&mut ec2, &named), [ids[0].as_str(), &ids[2]]);
    assert_eq!(listed(&mut ec2, &format!("{named}&Filter.2.Name=tag-key&Filter.2.Value.1=x")), [""; 0]);
    assert_eq!(listed(&mut ec2, &filter("instance-id", "i-1")), [""; 0]);
    assert_eq!(listed(&mut ec2, &filter("instance-state-name", "running")).len(), 0);
    assert_eq!(listed(&mut ec2, &filter("tag-key", "aws:ec2:fleet-id")).len(), 3);
    assert_eq!(listed(&mut ec2, &filter("tag:aws:ec2:fleet-id", "other")).len(), 0);
    assert_eq!(ec2.code("DescribeInstances", &filter("ip-address", "1")), "InvalidParameterValue");
    let first = ec2.call("DescribeInstances", "MaxResults=2").unwrap();
    assert_eq!(first.texts("reservationSet", "instancesSet/0/instanceId"), ids[..2]);
    assert_eq!(listed(&mut ec2, &format!("NextToken={}", first.text("nextToken"))), ids[2..]);
    assert_eq!(
        ec2.code("DescribeInstances", &format!("MaxResults=2&InstanceId.1={}", ids[0])),
        "InvalidParameterCombination"
    );
}

#[test]
fn a_termination_is_of_all_instances_or_of_none() {
    let mut ec2 = Fixture::new();
    let id = ec2.launch("m5.large", 1).remove(0);
    assert_eq!(
        ec2.code("TerminateInstances", &format!("InstanceId.1={id}&InstanceId.2=i-1")),
        "InvalidInstanceID.NotFound"
    );
    assert_eq!(ec2.code("TerminateInstances", "InstanceId.1=x"), "InvalidInstanceID.Malformed");
    assert_eq!(listed(&mut ec2, &filter("instance-state-name", "pending")), [id]);
}

#[test]
fn a_new_instance_is_invisible_for_the_lag() {
    let mut ec2 = Fixture::new();
    ec2.faults(Faults { lag: Lag { instances_ms: 3_000, ..Lag::default() }, ..Faults::default() });
    let id = ec2.launch("m5.large", 1).remove(0);
    ec2.wait(2_999);
    assert_eq!(listed(&mut ec2, ""), [""; 0]);
    assert_eq!(ec2.code("TerminateInstances", &format!("InstanceId.1={id}")), "InvalidInstanceID.NotFound");
    ec2.wait(1);
    assert_eq!(listed(&mut ec2, ""), [id]);
}

#[test]
fn listings_lack_what_the_shared_cloud_leaves_out_and_ids_find_it() {
    let mut ec2 = Fixture::new();
    ec2.cloud.faults_mut().lacking_lists_percent = 100;
    let id = ec2.launch("m5.large", 1).remove(0);
    assert_eq!(listed(&mut ec2, ""), [""; 0]);
    assert_eq!(listed(&mut ec2, &format!("InstanceId.1={id}")), [id]);
}

#[test]
fn tags_are_added_and_an_instance_of_another_interface_keeps_its_own() {
    let mut ec2 = Fixture::new();
    let option = Override { instance_type: "m5.large".into(), zone: "eu-west-1a".into() };
    let request = LaunchRequest {
        token: Text::from("t"),
        cluster: "green".into(),
        cluster_uid: Text::from("u-2"),
        claim: "web-1".into(),
        pool: "web".into(),
        node_class: Text::default(),
        capacity_type: CapacityType::Spot,
        overrides: vec![option],
        reservation: None,
        terms: Text::default(),
        template: None,
    };
    let id = ec2.cloud.launch(&request, ec2.now).unwrap().instance.id.to_string();
    assert_eq!(listed(&mut ec2, &filter("tag:fleetwright.dev/cluster", "green")), [id.as_str()]);
    let form = format!("ResourceId.1={id}&Tag.1.Key=Name&Tag.1.Value=node-1");
    ec2.call("CreateTags", &form).unwrap();
    assert_eq!(listed(&mut ec2, &filter("tag:Name", "node-1")), [id.as_str()]);
    assert_eq!(listed(&mut ec2, &filter("tag:fleetwright.dev/cluster", "green")), [id.as_str()]);
    // The tag counts, not what the cloud's book says.
    ec2.call("CreateTags", &format!("ResourceId.1={id}&Tag.1.Key=fleetwright.dev/cluster&Tag.1.Value=red")).unwrap();
    assert_eq!(listed(&mut ec2, &filter("tag:fleetwright.dev/cluster", "green")), [""; 0]);
    assert_eq!(listed(&mut ec2, &filter("tag:fleetwright.dev/cluster", "red")), [id.as_str()]);
    assert_eq!(ec2.code("CreateTags", "ResourceId.1=i-1&Tag.1.Key=Name&Tag.1.Value=x"), "InvalidInstanceID.NotFound");
    // It can be terminated here as well: there is one cloud.
    ec2.call("TerminateInstances", &format!("InstanceId.1={id}")).unwrap();
    assert_eq!(ec2.cloud.describe(&id).unwrap().state, cloud::provider::InstanceState::ShuttingDown);
}

#[test]
fn a_failed_status_check_and_a_scheduled_event_are_shown() {
    let mut ec2 = Fixture::new();
    let ids = ec2.launch("m5.large", 3);
    ec2.wait(BOOT_MS);
    ec2.cloud.tick(ec2.now);
    assert!(ec2.cloud.interrupt(&ids[0], InterruptionKind::StatusCheckFailed, ec2.now));
    assert!(ec2.cloud.interrupt(&ids[1], InterruptionKind::ScheduledChange, ec2.now));
    let found = |ec2: &mut Fixture, form: &str| {
        ec2.call("DescribeInstanceStatus", form).unwrap().texts("instanceStatusSet", "instanceId")
    };
    assert_eq!(found(&mut ec2, "").len(), 3);
    assert_eq!(found(&mut ec2, &filter("instance-status.status", "impaired")), [ids[0].as_str()]);
    assert_eq!(found(&mut ec2, &filter("system-status.status", "impaired")), [""; 0]);
    assert_eq!(found(&mut ec2, &filter("event.code", "instance-retirement")), [ids[1].as_str()]);
    let impaired = ec2.call("DescribeInstanceStatus", &filter("instance-status.status", "impaired")).unwrap();
    let since = impaired.text("instanceStatusSet/0/instanceStatus/details/0/impairedSince");
    assert_eq!(since, "2026-09-01T00:00:20.000Z");
    let scheduled = ec2.call("DescribeInstanceStatus", &filter("event.code", "instance-retirement")).unwrap();
    // Maintenance is announced 30 minutes ahead.
    assert_eq!(scheduled.text("instanceStatusSet/0/eventsSet/0/notBefore"), "2026-09-01T00:30:20.000Z");
}
