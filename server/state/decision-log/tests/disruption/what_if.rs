//! The same running cluster under other settings, prices and NodePools.

use decision_log::replay::RecordedPlan;
use decision_log::what_if::{PolicyOverride, WhatIf};
use disruption::{DisruptionPlan, Settings};
use manifests::Source;
use model::MicroUsd;
use model::input::{MinValuesPolicy, PreferencePolicy};
use planner::CompileCache;

use crate::log::{Log, captured, catalogue};
use crate::not_needed;
use crate::objects::{node, pod, pool, two_nodes};

/// What the recorded decision would have been.
async fn otherwise(manifests: &str, alternative: &WhatIf) -> DisruptionPlan {
    let log = Log::new().await;
    let _planned = log.decide(1, &captured(manifests), &Settings::default()).await;
    let recorded = log.load(1).await;
    let RecordedPlan::Disruption { request, .. } = recorded.planned else { panic!("a plan of pods") };
    let (mut input, mut request) = (recorded.input, request);
    alternative.apply_to_disruption(&mut input, &mut request).expect("readable changes");
    disruption::plan(&input, &request.running, &request.settings, &mut CompileCache::default()).expect("a plan")
}

fn settings(min_savings: i64) -> PolicyOverride {
    PolicyOverride {
        preferences: PreferencePolicy::default(),
        min_values: MinValuesPolicy::default(),
        min_savings: MicroUsd(min_savings),
        churn_price: MicroUsd(0),
        spot_to_spot: false,
    }
}

#[tokio::test]
async fn other_settings_of_consolidation_change_its_commands() {
    let commands = async |settings: Option<PolicyOverride>| {
        otherwise(&not_needed(), &WhatIf { settings, ..WhatIf::default() }).await.commands.len()
    };
    // The removal saves 0.40 an hour.
    assert_eq!(commands(None).await, 1);
    assert_eq!(commands(Some(settings(390_000))).await, 1);
    assert_eq!(commands(Some(settings(400_000))).await, 0);
}

#[tokio::test]
async fn other_prices_are_those_of_the_running_nodes_too() {
    let savings = async |bargain: bool| {
        let catalogue = bargain.then(|| catalogue(true));
        let text = pool("default").text() + &node("n-1", "big").text() + &pod("web-1", "n-1", "1").text();
        let planned = otherwise(&text, &WhatIf { catalogue, ..WhatIf::default() }).await;
        (planned.commands[0].savings.0, planned.cost.after.0)
    };
    // A `big` for 0.40 is replaced by a `box` for 0.20, or for 0.10.
    assert_eq!(savings(false).await, (200_000, 200_000));
    assert_eq!(savings(true).await, (300_000, 100_000));
}

#[tokio::test]
async fn the_disruption_settings_of_another_nodepool_apply() {
    let held = async |text: String| {
        let manifests = vec![Source { name: "pool.yaml".to_owned(), bytes: text.into_bytes() }];
        // The last pod event on n-1 was an hour before the plan; n-2 is consolidatable from the time of the plan on.
        let first = node("n-1", "big").claim_conditions("{type: Registered, status: \"True\"}");
        let first = first.claim_status("lastPodEventTime: 2026-01-01T11:00:00Z");
        let recorded = pool("default").text() + &two_nodes(&first, &pod("web-1", "n-1", "1"));
        // NodePools without an EC2NodeClass are read with a catalogue only.
        let alternative = WhatIf { manifests, catalogue: Some(catalogue(false)), ..WhatIf::default() };
        let planned = otherwise(&recorded, &alternative).await;
        planned.held.iter().flat_map(|held| &held.by).map(|hold| hold.code.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(held(pool("default").budgets("{nodes: \"0\"}").text()).await, "Budget Budget");
    // The pool had no wait.
    let wait = |wait: &str| pool("default").disruption(&format!("consolidateAfter: {wait}, budgets: []")).text();
    assert_eq!(held(wait("2h")).await, "ConsolidateAfter ConsolidateAfter");
    assert_eq!(held(wait("30m")).await, "ConsolidateAfter");
    assert_eq!(held(wait("Never")).await, "ConsolidateAfter ConsolidateAfter");
}
