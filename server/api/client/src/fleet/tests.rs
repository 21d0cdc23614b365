use fleetwright_proto::v1;
use prost_types::Timestamp;

use super::cells::age;
use super::kinds::Changes;
use super::*;

fn node() -> v1::Node {
    v1::Node {
        name: "clusters/prod/nodes/ip-10-0-0-1".to_owned(),
        node_claim: "default-abc".to_owned(),
        pool: "default".to_owned(),
        instance_type: "m6i.large".to_owned(),
        zone: "eu-west-1a".to_owned(),
        capacity_type: v1::CapacityType::Spot.into(),
        stage: v1::NodeStage::Ready.into(),
        price_micro_usd_per_hour: 43_251,
        pod_count: 7,
        cpu_requested_millis: 1_500,
        cpu_allocatable_millis: 1_930,
        memory_requested_bytes: 3 << 20,
        memory_allocatable_bytes: 7 << 30,
        ..v1::Node::default()
    }
}

#[test]
fn a_table_tells_requested_and_allocatable_apart_and_fits_its_columns() {
    let foreign = v1::Node { name: "clusters/a/nodes/\u{1b}[2J".to_owned(), ..v1::Node::default() };
    let text = document::<Nodes>(&[node(), foreign], FleetFormat::Table).unwrap();
    let expected = "\
CLUSTER  NODE         STAGE        NODEPOOL  TYPE       ZONE        CAPACITY  PODS  CPU          MEMORY      $/HOUR
prod     ip-10-0-0-1  ready        default   m6i.large  eu-west-1a  spot      7     1500m/1930m  3Mi/7168Mi  0.0433
a        \\u{1b}[2J    unspecified                                             0     0m/0m        0Mi/0Mi
";
    assert_eq!(text, expected);
    let wide = document::<Nodes>(&[node()], FleetFormat::Wide).unwrap();
    assert!(wide.contains("NODECLAIM") && wide.contains("default-abc"), "{wide}");
}

#[test]
fn json_is_that_of_the_api_and_names_are_lines() {
    let text = document::<Nodes>(&[node()], FleetFormat::Json).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value[0]["stage"], &value[0]["priceMicroUsdPerHour"]), (&"NODE_STAGE_READY".into(), &"43251".into()));
    assert_eq!(value[0]["removalReason"], "", "fields without a value are there");
    assert_eq!(document::<Nodes>(&[node()], FleetFormat::Name).unwrap(), "clusters/prod/nodes/ip-10-0-0-1\n");
}

#[test]
fn a_change_is_a_line_and_a_deleted_row_says_so() {
    let changes = Changes {
        rows: vec![node()],
        deleted: vec!["clusters/a/nodes/b".to_owned()],
        resume_token: String::new(),
        reset: Vec::new(),
    };
    let text = watch::text::<Nodes>(&changes, FleetFormat::Json).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["podCount"], &lines[1]["deleted"]), (&7.into(), &"clusters/a/nodes/b".into()));
    assert!(watch::text::<Nodes>(&changes, FleetFormat::Name).unwrap().ends_with("clusters/a/nodes/b deleted\n"));
}

#[test]
fn ages_are_in_the_largest_unit() {
    let ages = [(5, "5s"), (60, "1m"), (7_199, "1h"), (200_000, "2d"), (-9, "0s")];
    for (seconds, expected) in ages {
        let since = Timestamp { seconds: 1_000_000 - seconds, nanos: 0 };
        assert_eq!(age(Some(&since), 1_000_000_000), expected);
    }
    assert_eq!(age(None, 0), "");
}

#[test]
fn a_node_pool_shows_its_usage_limits_budgets_and_drift() {
    let resource = |resource: &str, usage: &str, limit: &str| v1::PoolResource {
        resource: resource.to_owned(),
        usage: usage.to_owned(),
        limit: limit.to_owned(),
    };
    let allowance =
        |reason: v1::DisruptionReason, node_count| v1::DisruptionAllowance { reason: reason.into(), node_count };
    let pool = v1::Pool {
        name: "clusters/prod/pools/default".to_owned(),
        weight: 10,
        machine_count: 6,
        price_micro_usd_per_hour: 1_152_000,
        resources: vec![
            resource("cpu", "24", "100"),
            resource("memory", "48Gi", ""),
            resource("nodes", "6", "8"),
            resource("nvidia.com/gpu", "2", "4"),
        ],
        disruption_allowances: vec![
            allowance(v1::DisruptionReason::Empty, 2),
            allowance(v1::DisruptionReason::Drifted, 2),
            allowance(v1::DisruptionReason::Underutilized, 2),
        ],
        disrupted_node_count: 1,
        drifted_node_count: 3,
        ..v1::Pool::default()
    };
    let text = document::<Pools>(std::slice::from_ref(&pool), FleetFormat::Table).unwrap();
    let expected = "\
CLUSTER  NODEPOOL  WEIGHT  MACHINES  CPU     MEMORY  $/HOUR  DISRUPTED  DRIFTED  NOT READY FOR  NOT READY
prod     default   10      6         24/100  48Gi    1.1520  1/2        3
";
    assert_eq!(text, expected);
    let wide = document::<Pools>(std::slice::from_ref(&pool), FleetFormat::Wide).unwrap();
    assert!(wide.contains("6/8") && wide.contains("nvidia.com/gpu 2/4"), "{wide}");
    let allowances = vec![allowance(v1::DisruptionReason::Empty, 2), allowance(v1::DisruptionReason::Drifted, 1)];
    let differing = v1::Pool { disruption_allowances: allowances, ..pool };
    assert!(document::<Pools>(&[differing], FleetFormat::Table).unwrap().contains("1/2 Empty, 1/1 Drifted"));
}
