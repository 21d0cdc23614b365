//! Features between pods: spread, affinity, anti-affinity.

use serde_json::{Value, json};

use super::feature::Feature;
use super::scenario::{HOST, Scenario, ZONE, selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub fn all() -> Vec<Feature> {
    let mut all = spreads();
    all.extend(affinities());
    all
}

fn spreads() -> Vec<Feature> {
    // Single constraints first, then combinations, then single fields of a constraint.
    vec![
        Feature::new("zone spread", |s| add_spread(s, ZONE, "DoNotSchedule", 1)),
        Feature::new("zone spread, maxSkew 5", |s| add_spread(s, ZONE, "DoNotSchedule", 5)),
        Feature::new("soft zone spread", |s| add_spread(s, ZONE, "ScheduleAnyway", 1)),
        Feature::new("host spread, maxSkew 1", |s| add_spread(s, HOST, "DoNotSchedule", 1)),
        Feature::new("host spread, maxSkew 2", |s| add_spread(s, HOST, "DoNotSchedule", 2)),
        Feature::new("soft host spread", |s| add_spread(s, HOST, "ScheduleAnyway", 1)),
        Feature::new("soft zone and host spread", |s| {
            add_spread(s, ZONE, "ScheduleAnyway", 1);
            add_spread(s, HOST, "ScheduleAnyway", 1);
        }),
        Feature::new("zone and host spread", |s| {
            add_spread(s, ZONE, "DoNotSchedule", 1);
            add_spread(s, HOST, "DoNotSchedule", 1);
        }),
        Feature::new("zone spread, soft host spread", |s| {
            add_spread(s, ZONE, "DoNotSchedule", 1);
            add_spread(s, HOST, "ScheduleAnyway", 1);
        }),
        Feature::new("capacity type spread", |s| {
            s.set_capacity_types(&["spot", "on-demand"]);
            add_spread(s, "karpenter.sh/capacity-type", "DoNotSchedule", 1);
        }),
        Feature::new("one spread for all workloads", |s| {
            let rule = json!([constraint(ZONE, "DoNotSchedule", 1, &json!({}))]);
            s.each_spec(|_, pod| pod["topologySpreadConstraints"] = rule.clone());
        }),
        Feature::new("one host spread for all workloads", |s| {
            let rule = json!([constraint(HOST, "DoNotSchedule", 8, &json!({}))]);
            s.each_spec(|_, pod| pod["topologySpreadConstraints"] = rule.clone());
        }),
        Feature::new("minDomains 3", |s| add_spread_with_field(s, "minDomains", &json!(3))),
        Feature::new("minDomains 5", |s| add_spread_with_field(s, "minDomains", &json!(5))),
        Feature::new("nodeTaintsPolicy Honor", |s| add_spread_with_field(s, "nodeTaintsPolicy", &json!("Honor"))),
        Feature::new("nodeAffinityPolicy Ignore", |s| add_spread_with_field(s, "nodeAffinityPolicy", &json!("Ignore"))),
        Feature::new("matchLabelKeys", |s| {
            for workload in &mut s.workloads {
                workload["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = "5d4f8c7b6".into();
            }
            add_spread_with_field(s, "matchLabelKeys", &json!(["pod-template-hash"]));
        }),
    ]
}

fn affinities() -> Vec<Feature> {
    vec![
        Feature::new("pod affinity, zone", |s| add_affinity(s, "podAffinity", ZONE, REQUIRED)),
        Feature::new("pod affinity, host", |s| add_affinity(s, "podAffinity", HOST, REQUIRED)),
        Feature::new("pod affinity to another workload, zone", |s| add_affinity_to_previous(s, ZONE)),
        Feature::new("pod affinity to another workload, host", |s| add_affinity_to_previous(s, HOST)),
        Feature::new("pod anti-affinity, host", |s| add_affinity(s, "podAntiAffinity", HOST, REQUIRED)),
        Feature::new("pod anti-affinity, zone", |s| add_affinity(s, "podAntiAffinity", ZONE, REQUIRED)),
        Feature::new("pod anti-affinity between workloads", |s| {
            let pairs = s.workloads.len();
            s.each_spec(|at, pod| pod["affinity"]["podAntiAffinity"][REQUIRED] = json!([term((at + 1) % pairs, HOST)]));
        }),
        Feature::new("preferred pod affinity, zone", |s| add_affinity(s, "podAffinity", ZONE, PREFERRED)),
        Feature::new("preferred pod affinity, host", |s| add_affinity(s, "podAffinity", HOST, PREFERRED)),
        Feature::new("preferred anti-affinity, zone", |s| add_affinity(s, "podAntiAffinity", ZONE, PREFERRED)),
        Feature::new("preferred anti-affinity, host", |s| add_affinity(s, "podAntiAffinity", HOST, PREFERRED)),
        Feature::new("preferred anti-affinity, zone and host", |s| {
            s.each_spec(|at, pod| {
                let preferred = [ZONE, HOST].map(|key| json!({"weight": 50, "podAffinityTerm": term(at, key)}));
                pod["affinity"]["podAntiAffinity"][PREFERRED] = json!(preferred);
            });
        }),
    ]
}

/// Adds to every workload a spread constraint over its own pods.
pub fn add_spread(scenario: &mut Scenario, key: &str, otherwise: &str, skew: u32) {
    scenario.each_spec(|at, pod| add_constraint(pod, constraint(key, otherwise, skew, &selector(at))));
}

fn add_constraint(pod: &mut Value, constraint: Value) {
    match pod["topologySpreadConstraints"].as_array_mut() {
        Some(all) => all.push(constraint),
        None => pod["topologySpreadConstraints"] = json!([constraint]),
    }
}

fn constraint(key: &str, otherwise: &str, skew: u32, selector: &Value) -> Value {
    json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": otherwise, "labelSelector": selector})
}

/// A hard zone spread with one more field.
fn add_spread_with_field(scenario: &mut Scenario, field: &str, value: &Value) {
    scenario.each_spec(|at, pod| {
        let mut rule = constraint(ZONE, "DoNotSchedule", 1, &selector(at));
        rule[field] = value.clone();
        add_constraint(pod, rule);
    });
}

fn term(at: usize, key: &str) -> Value {
    json!({"labelSelector": selector(at), "topologyKey": key})
}

/// An affinity term of every workload over its own pods.
fn add_affinity(scenario: &mut Scenario, kind: &str, key: &str, when: &str) {
    scenario.each_spec(|at, pod| {
        let term = term(at, key);
        pod["affinity"][kind][when] =
            if when == PREFERRED { json!([{"weight": 50, "podAffinityTerm": term}]) } else { json!([term]) };
    });
}

/// Adds to every second workload an affinity to the one before it.
fn add_affinity_to_previous(scenario: &mut Scenario, key: &str) {
    scenario.each_spec(|at, pod| {
        if at % 2 == 1 {
            pod["affinity"]["podAffinity"][REQUIRED] = json!([term(at - 1, key)]);
        }
    });
}
