use super::*;
use crate::catalogue::SpotRow;
use crate::faults::PoolCapacity;
use cloud::simulated::CapacityShortage;

const M5_A: &str = "InstanceType=m5.large&AvailabilityZone=eu-west-1a";
const C5_A: &str = "InstanceType=c5.large&AvailabilityZone=eu-west-1a";
const R5_B: &str = "InstanceType=r5.large&AvailabilityZone=eu-west-1b";

#[test]
fn a_token_stands_for_one_request_and_its_answer() {
    let mut ec2 = Fixture::new();
    let form = fleet_form("on-demand", 2, &[M5_A]) + "&ClientToken=t";
    let first = ec2.call("CreateFleet", &form).unwrap();
    ec2.wait(60_000);
    assert_eq!(ec2.call("CreateFleet", &form).unwrap(), first);
    assert_eq!(ec2.cloud.ledger().launched_count(), 2);
    let other = fleet_form("on-demand", 1, &[M5_A]) + "&ClientToken=t";
    assert_eq!(ec2.code("CreateFleet", &other), "IdempotentParameterMismatch");
    assert_eq!(ec2.cloud.ledger().launched_count(), 2);
    let entry = ec2.cloud.ledger().entries().next().unwrap();
    assert_eq!((entry.token.as_ref(), entry.price), ("t", Some(usd(107_000))));
}

/// What client tokens prevent: without them, the repeated request launches again.
#[test]
fn a_cloud_that_ignores_tokens_launches_again() {
    let mut ec2 = Fixture::new();
    ec2.cloud.faults_mut().ignore_tokens = true;
    let form = fleet_form("on-demand", 1, &[M5_A]) + "&ClientToken=t";
    ec2.call("CreateFleet", &form).unwrap();
    ec2.call("CreateFleet", &form).unwrap();
    assert_eq!(ec2.cloud.ledger().launched_count(), 2);
}

#[test]
fn an_answer_without_an_instance_is_final_for_its_token() {
    let mut ec2 = Fixture::new();
    ec2.faults(Faults { pools: vec![PoolCapacity::default()], ..Faults::default() });
    let form = fleet_form("on-demand", 1, &[M5_A]) + "&ClientToken=t";
    let refused = ec2.call("CreateFleet", &form).unwrap();
    assert_eq!(errors(&refused), ["InsufficientInstanceCapacity"]);
    ec2.faults(Faults::default());
    assert_eq!(ec2.call("CreateFleet", &form).unwrap(), refused);
}

#[test]
fn the_cheapest_pool_is_launched_first_by_every_strategy() {
    // Spot: c5 0.05, m5 0.04, r5 0.06. On demand, by the table of eu-west-1: c5 0.096, m5 0.107, r5 0.141.
    let mut ec2 = Fixture::with(|settings| {
        settings.catalogue.spot = [("c5.large", "a", "0.05"), ("m5.large", "a", "0.04"), ("r5.large", "b", "0.06")]
            .map(|(name, zone, price)| SpotRow::linux(name, &format!("eu-west-1{zone}"), price))
            .into();
    });
    let spot = "&SpotOptions.AllocationStrategy=";
    let on_demand = "&OnDemandOptions.AllocationStrategy=";
    for (kind, option, strategy, chosen) in [
        ("spot", spot, "price-capacity-optimized", "m5.large"),
        ("spot", spot, "lowest-price", "m5.large"),
        ("on-demand", on_demand, "lowest-price", "c5.large"),
    ] {
        let form = fleet_form(kind, 1, &[R5_B, M5_A, C5_A]) + option + strategy;
        assert_eq!(groups(&ec2.call("CreateFleet", &form).unwrap()), [(chosen.to_owned(), 1)], "{strategy}");
    }
    for (kind, strategy) in [("spot", format!("{spot}diversified")), ("on-demand", format!("{on_demand}prioritized"))] {
        let form = fleet_form(kind, 1, &[M5_A]) + &strategy;
        assert_eq!(ec2.code("CreateFleet", &form), "UnsupportedOperation", "{strategy}");
    }
}

#[test]
fn instances_and_errors_are_side_by_side_when_pools_run_out() {
    let mut ec2 = Fixture::new();
    let pool = |name: &str, available| PoolCapacity { available, ..PoolCapacity::none(name, "eu-west-1a") };
    ec2.faults(Faults { pools: vec![pool("c5.large", 2), pool("m5.large", 0)], ..Faults::default() });
    // By price: c5.large 0.096, m5.large 0.107, r5.large 0.141.
    let answer = ec2.fleet("on-demand", 5, &[M5_A, R5_B, C5_A]);
    assert_eq!(groups(&answer), [("c5.large".to_owned(), 2), ("r5.large".to_owned(), 3)]);
    assert_eq!(errors(&answer), ["InsufficientInstanceCapacity"; 2]);
    let echoed = "launchTemplateAndOverrides/overrides";
    assert_eq!(answer.texts("errorSet", &format!("{echoed}/instanceType")), ["c5.large", "m5.large"]);
    assert_eq!(answer.texts("errorSet", &format!("{echoed}/availabilityZone")), ["eu-west-1a"; 2]);
    let version = "launchTemplateAndOverrides/launchTemplateSpecification/version";
    assert_eq!(answer.texts("fleetInstanceSet", version), ["1", "1"]);
    assert_eq!(ec2.switchboard.faults().pools[0].available, 0);
}

#[test]
fn a_shortage_of_the_shared_cloud_is_a_shortage_here() {
    let mut ec2 = Fixture::new();
    let short = CapacityShortage { instance_type: Some("m5.large".into()), ..CapacityShortage::default() };
    ec2.cloud.faults_mut().shortages.push(short);
    assert_eq!(errors(&ec2.fleet("on-demand", 1, &[M5_A])), ["InsufficientInstanceCapacity"]);
    assert_eq!(errors(&ec2.fleet("on-demand", 1, &[C5_A])), [""; 0]);
}

#[test]
fn a_subnet_runs_out_of_addresses_and_gets_them_back() {
    // 16 addresses, of which 11 are for instances.
    let mut ec2 = Fixture::with(|settings| settings.subnets[0].cidr.1 = 28);
    let answer = ec2.fleet("on-demand", 12, &[M5_A]);
    assert_eq!(
        (groups(&answer), errors(&answer)),
        (vec![("m5.large".to_owned(), 11)], vec!["InsufficientFreeAddressesInSubnet".to_owned()])
    );
    let free = |ec2: &mut Fixture| {
        ec2.call("DescribeSubnets", "").unwrap().texts("subnetSet", "availableIpAddressCount")[0].clone()
    };
    assert_eq!(free(&mut ec2), "0");
    let id = answer.text("fleetInstanceSet/0/instanceIds/4");
    ec2.call("TerminateInstances", &format!("InstanceId.1={id}")).unwrap();
    assert_eq!(free(&mut ec2), "0");
    ec2.wait(SHUTDOWN_MS);
    assert_eq!(free(&mut ec2), "1");
}

#[test]
fn a_fleet_that_is_not_simulated_is_refused() {
    let mut ec2 = Fixture::new();
    for (change, code) in [
        ("&ValidUntil=2026-10-01", "UnknownParameter"),
        ("&LaunchTemplateConfigs.1.Overrides.1.WeightedCapacity=2", "UnsupportedOperation"),
        (
            "&LaunchTemplateConfigs.1.Overrides.2.InstanceType=m5.large&LaunchTemplateConfigs.1.Overrides.2.AvailabilityZone=eu-west-1a",
            "InvalidFleetConfig",
        ),
    ] {
        assert_eq!(ec2.code("CreateFleet", &(fleet_form("on-demand", 1, &[M5_A]) + change)), code, "{change}");
    }
    let maintained = fleet_form("on-demand", 1, &[M5_A]).replace("Type=instant", "Type=maintain");
    assert_eq!(ec2.code("CreateFleet", &maintained), "UnsupportedOperation");
}

#[test]
fn the_ledger_attributes_instances_by_their_tags() {
    let mut ec2 = Fixture::new();
    let mut form = fleet_form("spot", 1, &[M5_A]) + "&TagSpecification.1.ResourceType=instance";
    for (at, (key, value)) in
        (1..).zip([("cluster", "blue"), ("cluster-uid", "u-1"), ("nodeclaim", "web-1"), ("nodepool", "web")])
    {
        form += &format!(
            "&TagSpecification.1.Tag.{at}.Key=fleetwright.dev/{key}&TagSpecification.1.Tag.{at}.Value={value}"
        );
    }
    ec2.call("CreateFleet", &form).unwrap();
    let instance = &ec2.cloud.ledger().entries().next().unwrap().instance;
    let owner =
        (instance.cluster.as_ref(), instance.cluster_uid.as_ref(), instance.claim.as_ref(), instance.pool.as_ref());
    assert_eq!(owner, ("blue", "u-1", "web-1", "web"));
    assert_eq!(instance.capacity_type, model::CapacityType::Spot);
}
