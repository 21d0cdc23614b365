//! Small clusters and what may be removed from them. Expectations are worked out by hand.
//!
//! Machine types, in dollars an hour for each zone and capacity type: `box` has 4 CPUs and costs 0.20 on-demand and 0.08
//! spot, `big` has 8 and costs 0.40 and 0.16. The NodePool `default` launches on-demand machines only, `flex` both.
//!
//! In most tests `n-1` is a `big` with one pod of one CPU, and `n-2` a `box` with one CPU free: `n-1` is not needed.

mod blocks;
mod budgets;
mod consolidation;
mod cost;
mod destinations;
mod drift;
mod forceful;
mod groups;
mod guardrails;
mod keeping;
mod objects;
mod order;
mod pod_budgets;
mod properties;

use disruption::{DisruptionPlan, Settings};
use manifests::Source;
use model::{MicroUsd, Timestamp};
use planner::CompileCache;
use planning_input::{Captured, Options};

pub use objects::{node, pod, pool, two_nodes};

/// Both machine types in both zones.
pub const CATALOGUE: &str = r#"{"apiVersion":"fleetwright.dev/v1","kind":"Catalogue",
 "regions":[{"name":"lab","zones":["lab-a","lab-b"]}],"types":[
  {"name":"box","labels":{"kubernetes.io/arch":"amd64","kubernetes.io/os":"linux"},"overhead":{},
   "capacity":{"cpu":"4","memory":"16Gi","pods":"110"},
   "offerings":[{"zone":"lab-a","capacityType":"on-demand","priceUsdPerHour":0.2},
                {"zone":"lab-b","capacityType":"on-demand","priceUsdPerHour":0.2},
                {"zone":"lab-a","capacityType":"spot","priceUsdPerHour":0.08},
                {"zone":"lab-b","capacityType":"spot","priceUsdPerHour":0.08}]},
  {"name":"big","labels":{"kubernetes.io/arch":"amd64","kubernetes.io/os":"linux"},"overhead":{},
   "capacity":{"cpu":"8","memory":"32Gi","pods":"110"},
   "offerings":[{"zone":"lab-a","capacityType":"on-demand","priceUsdPerHour":0.4},
                {"zone":"lab-b","capacityType":"on-demand","priceUsdPerHour":0.4},
                {"zone":"lab-a","capacityType":"spot","priceUsdPerHour":0.16},
                {"zone":"lab-b","capacityType":"spot","priceUsdPerHour":0.16}]}]}"#;

/// 2026-01-01T12:00:00Z, a Thursday, in milliseconds: 20,454 days and twelve hours after 1970-01-01.
pub const NOW: i64 = (20_454 * 24 + 12) * 3_600_000;

/// The cluster of `manifests` at `now`.
pub fn read_at(now: i64, catalogue: &str, manifests: &str) -> Captured {
    let options = Options {
        disrupt: true,
        catalogue: Some(Source { name: "catalogue.json".into(), bytes: catalogue.into() }),
        now: Timestamp::from_millis(now),
        search_steps: 100_000,
        ..Options::default()
    };
    let source = Source { name: "in.yaml".into(), bytes: manifests.as_bytes().to_vec() };
    planning_input::read(&[source], &options).unwrap_or_else(|errors| panic!("refused: {errors:?}\n{manifests}"))
}

/// What may start in `captured`.
pub fn plan_of(captured: &Captured, settings: &Settings) -> DisruptionPlan {
    let plan = disruption::plan(&captured.input, &captured.running, settings, &mut CompileCache::default());
    let plan = plan.expect("an input that the verifier accepts");
    assert_eq!(plan.refused, Vec::<String>::new(), "the verifier refuses a command beside\n{}", render(&plan));
    plan
}

/// The NodePools `default` and `flex` without budgets, and `text`.
pub fn plan(text: &str) -> DisruptionPlan {
    plan_with(&Settings::default(), &(pool("default").text() + text))
}

/// `text`, which has its own NodePools.
pub fn plan_with(settings: &Settings, text: &str) -> DisruptionPlan {
    plan_of(&read_at(NOW, CATALOGUE, text), settings)
}

/// As [`plan`], as text.
pub fn rendered(text: &str) -> String {
    render(&plan(text))
}

/// As [`plan_with`], as text.
pub fn rendered_with(settings: &Settings, text: &str) -> String {
    render(&plan_with(settings, text))
}

/// Commands with launches and moves, then the nodes that stay with the code and object of each block.
pub fn render(plan: &DisruptionPlan) -> String {
    let input = &plan.input;
    let node = |at: &u32| input.nodes[*at as usize].name.to_string();
    let mut lines = Vec::new();
    for command in &plan.commands {
        let removed: Vec<String> = command.nodes.iter().map(node).collect();
        lines.push(format!("{} {}: saves {}", command.reason, removed.join(" "), signed(command.savings)));
        for launch in plan.launched_by(command) {
            let types = &input.pools[launch.pool as usize].catalogue.types;
            let names: Vec<&str> = launch.types.iter().map(|kind| types[*kind as usize].name.as_ref()).collect();
            let capacity = launch.capacity_type.as_str();
            lines.push(format!("  launch {}: {} {capacity}", launch.name, names.join(",")));
        }
        for (pod, to) in &command.placements {
            lines.push(format!("  {} to {to}", pod.name));
        }
    }
    for held in &plan.held {
        let by: Vec<String> = held.by.iter().map(|block| format!("{} {}", block.code.as_str(), block.object)).collect();
        lines.push(format!("{} stays ({}): {}", node(&held.node), held.reason, by.join(", ")));
    }
    lines.join("\n") + "\n"
}

fn signed(amount: MicroUsd) -> String {
    if amount.0 < 0 { format!("-{}", MicroUsd(-amount.0)) } else { amount.to_string() }
}

/// The lines of `text` about nodes that stay.
pub fn held(text: &str) -> Vec<String> {
    rendered(text).lines().filter(|line| line.contains(" stays ")).map(str::to_owned).collect()
}
