//! An OpenTelemetry collector receives the spans of the demo's decisions.

use std::collections::{BTreeMap, BTreeSet};

use e2e::{Collector, Program, ReceivedSpan};

use crate::{SIMULATOR, TIMEOUT};

/// Spans of the server, and the agent's spans that are part of them.
const AGENT_STEPS: [(&str, &str); 7] = [
    ("observe", "observe_pod"),
    ("create", "create_node_claim"),
    ("mark_launched", "mark_launched"),
    ("register", "register_node"),
    ("initialize", "initialize_node"),
    ("drain", "drain_node"),
    ("delete", "delete_node_claim"),
];

/// Seeds of demos, of which the first that shows all steps of the agent and the end of a machine is enough: an agent drops
/// spans while other messages wait.
const SEEDS: [&str; 3] = ["2", "3", "4"];

/// The spans of a demo with one cluster.
fn spans_of_a_demo(seed: &str) -> Vec<ReceivedSpan> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (collector, address) = runtime.block_on(Collector::start()).expect("a port");
    let demo = Program::new(SIMULATOR, &["demo", "--for", "60s", "--seed", seed, "--clusters", "1"]);
    let ended = demo.env("OTEL_EXPORTER_OTLP_ENDPOINT", &address).run(TIMEOUT);
    assert_eq!(ended.status, 0, "{}\n{}", ended.stdout, ended.stderr);
    collector.spans()
}

fn by_trace(spans: &[ReceivedSpan]) -> BTreeMap<&[u8], Vec<&ReceivedSpan>> {
    let mut traces: BTreeMap<&[u8], Vec<&ReceivedSpan>> = BTreeMap::new();
    for received in spans {
        traces.entry(&received.span.trace_id).or_default().push(received);
    }
    traces
}

fn named<'s>(trace: &[&'s ReceivedSpan], name: &str) -> Vec<&'s ReceivedSpan> {
    trace.iter().filter(|received| received.span.name == name).copied().collect()
}

/// What the server did about the machine with this instance, in order, each once.
fn steps<'s>(trace: &[&'s ReceivedSpan], instance: &str) -> Vec<&'s str> {
    let of_instance = |received: &&&ReceivedSpan| received.text("host.id") == Some(instance);
    let by_server = |received: &&&ReceivedSpan| received.service == "fleetwright";
    let mut spans: Vec<_> = trace.iter().filter(by_server).filter(of_instance).collect();
    spans.sort_by_key(|received| (received.span.start_time_unix_nano, received.span.end_time_unix_nano));
    let mut seen = BTreeSet::new();
    spans.iter().map(|received| &*received.span.name).filter(|name| seen.insert(*name)).collect()
}

#[test]
fn every_decision_is_one_trace_from_its_first_pod_to_ready_nodes_with_bound_pods_or_to_the_end_of_its_machine() {
    let expected: BTreeSet<String> = AGENT_STEPS.iter().map(|(_, by)| (*by).to_owned()).collect();
    let mut shown = Vec::new();
    for seed in SEEDS {
        shown.push(assert_traces_are_whole(&spans_of_a_demo(seed)));
        if shown.last().is_some_and(|(seen, removed)| *seen == expected && *removed > 0) {
            return;
        }
    }
    panic!("no demo shows the steps {expected:?} of the agent and a machine that is removed: {shown:?}");
}

/// Returns the steps of the agent, and how many machines are removed.
fn assert_traces_are_whole(spans: &[ReceivedSpan]) -> (BTreeSet<String>, usize) {
    let traces = by_trace(spans);
    let (mut launched, mut removed, mut seen) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for trace in traces.values() {
        let [decision] = named(trace, "decision")[..] else { panic!("not one decision: {trace:?}") };
        let ids: BTreeSet<&[u8]> = trace.iter().map(|received| &*received.span.span_id).collect();
        assert_eq!(ids.len(), trace.len(), "a span was sent twice: {trace:?}");
        for step in trace.iter().filter(|step| step.span.name != "decision") {
            assert!(ids.contains(&*step.span.parent_span_id), "no parent: {step:?}");
            assert!(decision.span.start_time_unix_nano <= step.span.start_time_unix_nano, "{decision:?}: {step:?}");
            // It is closed when its task has given the answer away.
            if step.span.name == "execute" {
                continue;
            }
            assert!(step.span.end_time_unix_nano <= decision.span.end_time_unix_nano, "{decision:?}: {step:?}");
        }
        let of_agent = trace.iter().filter(|step| step.service == "fleetwright-agent");
        for step in of_agent {
            let parent = trace.iter().find(|parent| parent.span.span_id == step.span.parent_span_id);
            let (of, by) = (&*parent.expect("a parent").span.name, &*step.span.name);
            assert!(AGENT_STEPS.contains(&(of, by)), "{by} is part of {of}");
            seen.insert(by.to_owned());
        }
        for step in named(trace, "execute") {
            let parent = trace.iter().find(|parent| parent.span.span_id == step.span.parent_span_id);
            let of = &*parent.expect("a parent").span.name;
            assert!(["record", "launch", "terminate"].contains(&of), "execute is part of {of}");
        }
        assert!(!named(trace, "execute").is_empty(), "no span of a task: {trace:?}");
        assert!(named(trace, "plan").len() == 1 && !named(trace, "record").is_empty(), "{trace:?}");
        launched.extend(named(trace, "launch").iter().filter_map(|launch| launch.text("host.id")));
        removed.extend(named(trace, "delete").iter().filter_map(|delete| delete.text("host.id")));
    }
    let mut whole = 0;
    for &machine in &launched {
        let of: Vec<_> = traces
            .values()
            .filter(|trace| named(trace, "launch").iter().any(|launch| launch.text("host.id") == Some(machine)))
            .collect();
        let [trace] = of[..] else { panic!("{} traces launch {machine}", of.len()) };
        assert!(named(trace, "observe").iter().all(|pod| pod.text("k8s.pod.uid").is_some()), "{trace:?}");
        // Marking the NodeClaim and initializing the Node go on beside these.
        let steps: Vec<&str> =
            steps(trace, machine).into_iter().filter(|step| !["mark_launched", "initialize"].contains(step)).collect();
        // The demo may end, or the machine go again, before pods are bound to it.
        assert!(["launch", "register", "ready", "bound"].starts_with(&steps), "{machine}: {steps:?}");
        if steps.len() < 4 {
            continue;
        }
        whole += 1;
        let bound = named(trace, "bound").into_iter().find(|bound| bound.text("host.id") == Some(machine));
        let uids = bound.map(|bound| bound.texts_of_events("k8s.pod.uid")).unwrap_or_default();
        assert!(!uids.is_empty(), "{machine}: {trace:?}");
    }
    // Thirty pods with three kinds of requirements need at least one instance of each.
    assert!(whole >= 3, "{launched:?}");
    let removals = removed.len();
    for machine in removed {
        let of: Vec<_> = traces.values().map(|trace| steps(trace, machine)).collect();
        assert!(of.iter().any(|steps| *steps == ["drain", "terminate", "delete"]), "{machine}: {of:?}");
    }
    (seen, removals)
}
