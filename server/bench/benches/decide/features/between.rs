//! Features between pods: spread, affinity, anti-affinity.

use serde_json::{Value, json};

use super::Feature;
use super::scene::{HOST, Scene, ZONE, selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Features between pods.
pub fn all() -> Vec<Feature> {
    let mut all = spreads();
    all.extend(affinities());
    all
}

fn spreads() -> Vec<Feature> {
    vec![
        Feature::new("zone spread", |s| spread(s, ZONE, "DoNotSchedule", 1)),
        Feature::new("zone spread, maxSkew 5", |s| spread(s, ZONE, "DoNotSchedule", 5)),
        Feature::new("soft zone spread", |s| spread(s, ZONE, "ScheduleAnyway", 1)),
        Feature::new("host spread, maxSkew 1", |s| spread(s, HOST, "DoNotSchedule", 1)),
        Feature::new("host spread, maxSkew 2", |s| spread(s, HOST, "DoNotSchedule", 2)),
        Feature::new("soft host spread", |s| spread(s, HOST, "ScheduleAnyway", 1)),
        Feature::new("soft zone and host spread", |s| {
            spread(s, ZONE, "ScheduleAnyway", 1);
            spread(s, HOST, "ScheduleAnyway", 1);
        }),
        Feature::new("zone and host spread", |s| {
            spread(s, ZONE, "DoNotSchedule", 1);
            spread(s, HOST, "DoNotSchedule", 1);
        }),
        Feature::new("zone spread, soft host spread", |s| {
            spread(s, ZONE, "DoNotSchedule", 1);
            spread(s, HOST, "ScheduleAnyway", 1);
        }),
        Feature::new("capacity type spread", |s| {
            s.capacity_types(&["spot", "on-demand"]);
            spread(s, "karpenter.sh/capacity-type", "DoNotSchedule", 1);
        }),
        Feature::new("one spread for all workloads", |s| {
            let rule = json!([constraint(ZONE, "DoNotSchedule", 1, &json!({}))]);
            s.each_spec(|_, pod| pod["topologySpreadConstraints"] = rule.clone());
        }),
        Feature::new("one host spread for all workloads", |s| {
            let rule = json!([constraint(HOST, "DoNotSchedule", 8, &json!({}))]);
            s.each_spec(|_, pod| pod["topologySpreadConstraints"] = rule.clone());
        }),
        Feature::new("minDomains 3", |s| detailed(s, "minDomains", &json!(3))),
        Feature::new("minDomains 5", |s| detailed(s, "minDomains", &json!(5))),
        Feature::new("nodeTaintsPolicy Honor", |s| detailed(s, "nodeTaintsPolicy", &json!("Honor"))),
        Feature::new("nodeAffinityPolicy Ignore", |s| detailed(s, "nodeAffinityPolicy", &json!("Ignore"))),
        Feature::new("matchLabelKeys", |s| {
            for workload in &mut s.workloads {
                workload["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = "5d4f8c7b6".into();
            }
            detailed(s, "matchLabelKeys", &json!(["pod-template-hash"]));
        }),
    ]
}

fn affinities() -> Vec<Feature> {
    vec![
        Feature::new("pod affinity, zone", |s| affinity(s, "podAffinity", ZONE, REQUIRED)),
        Feature::new("pod affinity, host", |s| affinity(s, "podAffinity", HOST, REQUIRED)),
        Feature::new("pod affinity to another workload, zone", |s| beside(s, ZONE)),
        Feature::new("pod affinity to another workload, host", |s| beside(s, HOST)),
        Feature::new("pod anti-affinity, host", |s| affinity(s, "podAntiAffinity", HOST, REQUIRED)),
        Feature::new("pod anti-affinity, zone", |s| affinity(s, "podAntiAffinity", ZONE, REQUIRED)),
        Feature::new("pod anti-affinity between workloads", |s| {
            let pairs = s.workloads.len();
            s.each_spec(|at, pod| pod["affinity"]["podAntiAffinity"][REQUIRED] = json!([term((at + 1) % pairs, HOST)]));
        }),
        Feature::new("preferred pod affinity, zone", |s| affinity(s, "podAffinity", ZONE, PREFERRED)),
        Feature::new("preferred pod affinity, host", |s| affinity(s, "podAffinity", HOST, PREFERRED)),
        Feature::new("preferred anti-affinity, zone", |s| affinity(s, "podAntiAffinity", ZONE, PREFERRED)),
        Feature::new("preferred anti-affinity, host", |s| affinity(s, "podAntiAffinity", HOST, PREFERRED)),
        Feature::new("preferred anti-affinity, zone and host", |s| {
            s.each_spec(|at, pod| {
                let preferred = [ZONE, HOST].map(|key| json!({"weight": 50, "podAffinityTerm": term(at, key)}));
                pod["affinity"]["podAntiAffinity"][PREFERRED] = json!(preferred);
            });
        }),
    ]
}

/// Adds a spread constraint of every workload over itself.
pub fn spread(scene: &mut Scene, key: &str, otherwise: &str, skew: u32) {
    scene.each_spec(|at, pod| push(pod, constraint(key, otherwise, skew, &selector(at))));
}

fn push(pod: &mut Value, constraint: Value) {
    match pod["topologySpreadConstraints"].as_array_mut() {
        Some(all) => all.push(constraint),
        None => pod["topologySpreadConstraints"] = json!([constraint]),
    }
}

fn constraint(key: &str, otherwise: &str, skew: u32, selector: &Value) -> Value {
    json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": otherwise, "labelSelector": selector})
}

/// A hard zone spread with one more field.
fn detailed(scene: &mut Scene, field: &str, value: &Value) {
    scene.each_spec(|at, pod| {
        let mut rule = constraint(ZONE, "DoNotSchedule", 1, &selector(at));
        rule[field] = value.clone();
        push(pod, rule);
    });
}

fn term(at: usize, key: &str) -> Value {
    json!({"labelSelector": selector(at), "topologyKey": key})
}

/// A term of every workload about itself.
fn affinity(scene: &mut Scene, kind: &str, key: &str, when: &str) {
    scene.each_spec(|at, pod| {
        let term = term(at, key);
        pod["affinity"][kind][when] =
            if when == PREFERRED { json!([{"weight": 50, "podAffinityTerm": term}]) } else { json!([term]) };
    });
}

/// Every second workload wants to stand beside the one before it.
fn beside(scene: &mut Scene, key: &str) {
    scene.each_spec(|at, pod| {
        if at % 2 == 1 {
            pod["affinity"]["podAffinity"][REQUIRED] = json!([term(at - 1, key)]);
        }
    });
}
