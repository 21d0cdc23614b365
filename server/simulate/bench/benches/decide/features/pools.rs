//! Features of NodePools: taints, weights, limits, `minValues`, offerings, and the opt-in rules.

use serde_json::{Value, json};

use super::between::add_spread;
use super::feature::Feature;
use super::scenario::{self, Scenario, TYPE, ZONE, one_of};

const FAMILY: &str = "karpenter.k8s.aws/instance-family";
/// Mean CPU request of the plain workloads, in milli-cores per pod: the mean of the 13 amounts.
const MEAN_CPU: usize = 1_000;

pub fn all() -> Vec<Feature> {
    [pool_sets(), limits(), min_values(), capacity(), rules()].into_iter().flatten().collect()
}

fn pool_sets() -> Vec<Feature> {
    vec![
        Feature::new("100 tainted pools for 100 teams", |s| add_team_pools(s, 100, true)),
        Feature::new("100 pools by label", |s| add_team_pools(s, 100, false)),
        Feature::new("20 equal pools", |s| {
            s.pools = (0..20).map(|at| scenario::pool(&format!("pool-{at:02}"))).collect()
        }),
        Feature::new("three weights", |s| {
            s.pools = (0..3).map(|at| scenario::pool(&format!("pool-{at}"))).collect();
            s.pools.iter_mut().zip([10, 50, 90]).for_each(|(pool, weight)| pool["spec"]["weight"] = weight.into());
        }),
        Feature::new("static pool add_affinity_to_previous", |s| {
            let mut other = scenario::pool("static");
            other["spec"]["replicas"] = 10.into();
            s.pools.push(other);
        }),
    ]
}

fn limits() -> Vec<Feature> {
    vec![
        Feature::new("cpu limit, wide", |s| limit_pool(s, "cpu", 200)),
        Feature::new("cpu limit, just enough", |s| limit_pool_to(s, "cpu", s.pods * MEAN_CPU * 11 / 10_000)),
        Feature::new("cpu limit, half", |s| limit_pool(s, "cpu", 1)),
        Feature::new("memory limit, half", |s| limit_pool_to(s, "memory", s.pods * 640)),
        Feature::new("node limit", |s| limit_pool_to(s, "nodes", 10)),
        Feature::new("small limits on 20 pools", |s| {
            s.pools = (0..20).map(|at| scenario::pool(&format!("pool-{at:02}"))).collect();
            let each = s.pods * MEAN_CPU * 11 / 10_000 / 20;
            s.pools.iter_mut().for_each(|pool| pool["spec"]["limits"] = json!({"cpu": each.to_string()}));
        }),
    ]
}

fn min_values() -> Vec<Feature> {
    vec![
        Feature::new("minValues 5 on the family", |s| set_min_values(s, FAMILY, 5)),
        Feature::new("minValues 10 on the family, zone spread", |s| {
            set_min_values(s, FAMILY, 10);
            add_spread(s, ZONE, "DoNotSchedule", 1);
        }),
        Feature::new("minValues 20 on the type", |s| set_min_values(s, TYPE, 20)),
        Feature::new("minValues on three labels", |s| {
            set_min_values(s, FAMILY, 5);
            set_min_values(s, TYPE, 10);
            set_min_values(s, "karpenter.k8s.aws/instance-generation", 2);
        }),
        Feature::new("minValues 5, cpu limit, just enough", |s| {
            set_min_values(s, FAMILY, 5);
            limit_pool_to(s, "cpu", s.pods * MEAN_CPU * 13 / 10_000);
        }),
        Feature::new("minValues 5, soft zone and host spread", |s| {
            set_min_values(s, FAMILY, 5);
            add_spread(s, ZONE, "ScheduleAnyway", 1);
            add_spread(s, scenario::HOST, "ScheduleAnyway", 1);
        }),
        Feature::new("minValues that nothing meets", |s| {
            set_min_values(s, "karpenter.k8s.aws/instance-generation", 50)
        }),
    ]
}

fn capacity() -> Vec<Feature> {
    // Each feature changes the offerings of the first pool; a reservation also needs a class
    // status.
    vec![
        Feature::new("spot only", |s| s.set_capacity_types(&["spot"])),
        Feature::new("spot and on-demand", |s| s.set_capacity_types(&["spot", "on-demand"])),
        Feature::new("any machine", |s| s.pools[0]["spec"]["template"]["spec"]["requirements"] = json!([])),
        Feature::new("arm64 only", |s| s.pools = vec![scenario::arm_pool()]),
        Feature::new("six types", |s| {
            s.add_requirement(one_of(
                TYPE,
                &["m5.large", "m5.xlarge", "m5.2xlarge", "c5.2xlarge", "r5.large", "r5.2xlarge"],
            ));
        }),
        Feature::new("no type above 8 vCPU", |s| {
            s.add_requirement(json!({"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["9"]}));
        }),
        Feature::new("NodeOverlay", |s| {
            s.others.push(json!({
                "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "deal"},
                "spec": {"requirements": [one_of(FAMILY, &["m5", "c5"])], "priceAdjustment": "-30%"},
            }));
        }),
        Feature::new("20 NodeOverlays", |s| {
            s.others.extend((0..20).map(|at| json!({
                "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": format!("deal-{at}")},
                "spec": {
                    "weight": at + 1, "requirements": [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": [at.to_string()]}],
                    "priceAdjustment": "+1%",
                },
            })));
        }),
        Feature::new("reserved capacity", |s| {
            s.set_capacity_types(&["reserved", "on-demand"]);
            let reservation = |at: usize| {
                json!({
                    "id": format!("cr-{at:017x}"), "availabilityZone": scenario::ZONES[at % 3], "instanceType": "m5.2xlarge",
                    "instanceMatchCriteria": "targeted", "ownerID": "123456789012", "reservationType": "default", "state": "active",
                })
            };
            s.others[0]["spec"]["capacityReservationSelectorTerms"] = json!([{"tags": {"team": "a"}}]);
            s.others[0]["status"] = json!({
                "capacityReservations": (0..5).map(reservation).collect::<Vec<_>>(),
                "subnets": scenario::ZONES.map(|zone| json!({"id": format!("subnet-{zone}"), "zone": zone, "zoneID": "use1-az1"})),
                "conditions": [{"type": "Ready", "status": "True"}],
            });
            s.reservations = (0..5).map(|at| (format!("cr-{at:017x}"), 8)).collect();
        }),
    ]
}

fn rules() -> Vec<Feature> {
    // One annotation in each feature, with the capacity types that make its rule apply.
    vec![
        Feature::new("zone-balance", |s| s.annotate("zone-balance", "true")),
        Feature::new("zone-balance, zone spread", |s| {
            s.annotate("zone-balance", "true");
            add_spread(s, ZONE, "DoNotSchedule", 1);
        }),
        Feature::new("safe-architectures", |s| {
            s.pools[0]["spec"]["template"]["spec"]["requirements"][1] =
                one_of("kubernetes.io/arch", &["amd64", "arm64"]);
            s.annotate("safe-architectures", "amd64");
        }),
        Feature::new("max-price-per-vcpu", |s| s.annotate("max-price-per-vcpu", "0.045")),
        Feature::new("max-node-price", |s| s.annotate("max-node-price", "0.5")),
        Feature::new("max-node-vcpu", |s| s.annotate("max-node-vcpu", "8")),
        Feature::new("min-nodes", |s| s.annotate("min-nodes", "30")),
        Feature::new("spot-max-percent", |s| {
            s.set_capacity_types(&["spot", "on-demand"]);
            s.annotate("spot-max-percent", "70");
        }),
        Feature::new("on-demand-min-nodes", |s| {
            s.set_capacity_types(&["spot", "on-demand"]);
            s.annotate("on-demand-min-nodes", "5");
        }),
        Feature::new("spot-fallback-after", |s| {
            s.set_capacity_types(&["spot", "on-demand"]);
            s.annotate("spot-fallback-after", "20m");
            s.alone = true;
        }),
        Feature::new("spot-fallback-after, no spot", |s| {
            s.set_capacity_types(&["spot", "on-demand"]);
            s.add_requirement(one_of(TYPE, &["p5.48xlarge", "u-6tb1.112xlarge"]));
            s.annotate("spot-fallback-after", "20m");
            s.alone = true;
        }),
    ]
}

/// Limits the first pool to `halves` halves of the pods' requests.
pub fn limit_pool(scenario: &mut Scenario, resource: &str, halves: usize) {
    let cores = scenario.pods * MEAN_CPU * halves / 2_000;
    limit_pool_to(scenario, resource, cores);
}

fn limit_pool_to(scenario: &mut Scenario, resource: &str, amount: usize) {
    let unit = if resource == "memory" { "Mi" } else { "" };
    scenario.pools[0]["spec"]["limits"] = json!({resource: format!("{amount}{unit}")});
}

fn set_min_values(scenario: &mut Scenario, key: &str, least: u32) {
    scenario.add_requirement(json!({"key": key, "operator": "Exists", "minValues": least}));
}

/// Adds a pool for each of `count` teams; the workloads belong to the teams in turn.
fn add_team_pools(scenario: &mut Scenario, count: usize, tainted: bool) {
    scenario.pools = (0..count).map(|at| team_pool(at, tainted)).collect();
    scenario.set_plain_workloads(count);
    scenario.each_spec(|at, pod| {
        let name = format!("team-{:03}", at % count);
        pod["nodeSelector"] = json!({"team": name});
        if tainted {
            pod["tolerations"] = json!([{"key": "team", "value": name, "effect": "NoSchedule"}]);
        }
    });
}

fn team_pool(at: usize, tainted: bool) -> Value {
    let name = format!("team-{at:03}");
    let mut pool = scenario::pool(&name);
    pool["spec"]["template"]["metadata"]["labels"] = json!({"team": name});
    if tainted {
        pool["spec"]["template"]["spec"]["taints"] = json!([{"key": "team", "value": name, "effect": "NoSchedule"}]);
    }
    pool
}
