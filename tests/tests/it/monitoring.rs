//! Alerts and boards of `deploy/` name metrics that exist and that Prometheus has of a running server. Each alert has a runbook
//! with commands that exist, and fires and is quiet where it should.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::monitoring::{after, boards, deploy, exprs, metrics, read, wanted};
use e2e::prometheus::installed;
use e2e::{Program, Prometheus, TempDir};
use serde_json::{Value, json};
use simulation::deterministic::long_run::{Load, LongRun, Scrape};

use crate::{SIMULATOR, TIMEOUT, fleetwright};

#[test]
fn every_alert_has_a_severity_a_runbook_and_two_cases_and_names_metrics_that_exist() {
    let (alerts, cases, runbook, reference) =
        (read("prometheus/alerts.yaml"), read("prometheus/alerts_test.yaml"), read("runbook.md"), read("metrics.md"));
    let names = after(&alerts, "- alert: ");
    assert!(names.len() >= 18, "{names:?}");
    for mark in ["severity: ", "summary: ", "description: ", "runbook_url: ", "for: ", "expr: "] {
        assert_eq!(after(&alerts, mark).len(), names.len(), "{mark}");
    }
    let severities: BTreeSet<&str> = after(&alerts, "severity: ").into_iter().collect();
    assert_eq!(severities, BTreeSet::from(["critical", "info", "warning"]));
    for (name, url) in names.iter().zip(after(&alerts, "runbook_url: ")) {
        assert_eq!(url, format!("deploy/runbook.md#{}", name.to_lowercase()));
        assert!(after(&runbook, "### ").contains(name), "{name} is not in the runbook");
        for case in ["fires", "is quiet"] {
            assert!(after(&cases, "- name: ").contains(&&*format!("{name} {case}")), "{name} {case}");
        }
    }
    let exprs = after(&alerts, "expr: ").join(" ");
    assert_eq!(unknown(&exprs, &reference), Vec::<&str>::new());
}

fn unknown<'t>(exprs: &'t str, reference: &str) -> Vec<&'t str> {
    let is_unknown = |metric: &&str| {
        let name = metric.strip_suffix("_bucket").unwrap_or(metric);
        !reference.contains(&format!("`{name}`"))
    };
    metrics(exprs).into_iter().filter(is_unknown).collect()
}

#[test]
fn boards_name_metrics_that_exist_and_their_data_source_job_and_cluster_are_variables() {
    let reference = read("metrics.md");
    for (name, board) in boards() {
        assert_eq!(board["uid"], format!("fleetwright-{name}"));
        let variables: Vec<&str> = board["templating"]["list"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["name"].as_str())
            .collect();
        let cluster = (name != "server").then_some("cluster");
        assert_eq!(variables, ["datasource", "job"].into_iter().chain(cluster).collect::<Vec<_>>(), "{name}");
        for panel in board["panels"].as_array().into_iter().flatten() {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel:#}");
        }
        let exprs = exprs(&board);
        assert!(exprs.len() >= 7, "{name}: {exprs:?}");
        for expr in exprs {
            assert_eq!(unknown(&expr, &reference), Vec::<&str>::new(), "{name}: {expr}");
            let selectors = expr.matches('{').count();
            assert_eq!(expr.matches("job=~\"$job\"").count(), selectors, "{name}: {expr}");
            assert_eq!(
                expr.matches("cluster=~\"$cluster\"").count(),
                if name == "server" { 0 } else { selectors },
                "{expr}"
            );
        }
    }
}

/// Metrics of Karpenter's two boards (1.14, capacity and performance), with the labels that their panels and variables select or
/// group by; a label with a value selects it. Without those of other programs: of Go (`controller_runtime_…`) and of the node exporter.
const KARPENTER_BOARDS: [(&str, &[&str]); 15] = [
    ("karpenter_nodes_created_total", &["cluster", "nodepool"]),
    ("karpenter_nodes_terminated_total", &["cluster", "nodepool"]),
    ("karpenter_voluntary_disruption_eligible_nodes", &["reason"]),
    ("karpenter_nodeclaims_disrupted_total", &["cluster", "nodepool"]),
    ("karpenter_voluntary_disruption_decisions_total", &["cluster", "consolidation_type", "decision"]),
    (
        "karpenter_pods_state",
        &["arch", "capacity_type", "instance_type", "namespace", "node", "nodepool", "phase", "zone"],
    ),
    ("karpenter_nodepools_usage", &["nodepool", "resource_type=cpu"]),
    ("karpenter_nodepools_usage", &["nodepool", "resource_type=memory"]),
    ("karpenter_nodepools_limit", &["nodepool", "resource_type=cpu"]),
    (
        "karpenter_nodes_allocatable",
        &["arch", "capacity_type", "instance_type", "node_name", "nodepool", "resource_type=cpu", "zone"],
    ),
    ("karpenter_nodes_allocatable", &["capacity_type=spot", "nodepool", "resource_type=memory"]),
    (
        "karpenter_nodes_total_pod_requests",
        &["arch", "capacity_type", "instance_type", "node_name", "nodepool", "resource_type=pods", "zone"],
    ),
    (
        "karpenter_nodes_total_daemon_requests",
        &["arch", "capacity_type", "instance_type", "node_name", "nodepool", "resource_type=pods", "zone"],
    ),
    ("karpenter_nodes_termination_duration_seconds", &["quantile=0.99", "nodepool"]),
    ("karpenter_pods_startup_duration_seconds", &["quantile=1"]),
];

/// Selectors of series with these labels.
fn selectors_of_karpenters_boards() -> impl Iterator<Item = String> {
    let matcher = |label: &&str| match label.split_once('=') {
        Some((label, value)) => format!("{label}=\"{value}\""),
        None => format!("{label}!=\"\""),
    };
    KARPENTER_BOARDS.iter().map(move |(metric, labels)| {
        let matchers: Vec<String> = labels.iter().map(matcher).collect();
        format!("{metric}{{{}}}", matchers.join(","))
    })
}

/// `apt-get install prometheus` has the program.
#[test]
fn every_selector_of_boards_and_alerts_matches_a_series_of_the_demo() {
    let test = "every_selector_of_boards_and_alerts_matches_a_series_of_the_demo";
    if installed(test, "prometheus").is_none() {
        return;
    }
    let mut wanted = wanted(false);
    wanted.extend(selectors_of_karpenters_boards());
    assert!(wanted.len() >= 40, "{wanted:?}");

    // Without `--for` it goes on until it is stopped.
    let demo = Program::new(SIMULATOR, &["demo"]).start_with_stdout();
    let line = demo.next_stdout_line(TIMEOUT);
    let server = line
        .split_whitespace()
        .last()
        .expect("an address")
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned();
    let params = "\"params\": {\"nodes\": [\"*\"], \"pods\": [\"*\"]}, ";
    let Some(prometheus) = Prometheus::start(test, &server, params, None) else { return };
    let end = Instant::now() + TIMEOUT;
    while !wanted.is_empty() {
        assert!(Instant::now() < end, "no series of the demo: {wanted:#?}");
        std::thread::sleep(Duration::from_millis(500));
        wanted.retain(|selector| !prometheus.has(selector));
    }
    drop(prometheus);
    // Its status says whether all pods ran, which they had no time for.
    let _status = demo.stop(TIMEOUT);
}

#[test]
fn every_command_of_the_runbook_exists() {
    let runbook = read("runbook.md");
    let commands: BTreeSet<Vec<&str>> = after(&runbook, "fleetwright ")
        .into_iter()
        .map(|line| {
            let is_name = |word: &&str| word.chars().all(|one| one.is_ascii_lowercase() || one == '-');
            line.split_whitespace().take_while(|word| !word.starts_with('-')).take_while(is_name).collect()
        })
        .collect();
    assert!(commands.len() >= 8, "{commands:?}");
    for words in commands {
        let help = fleetwright(&[words.as_slice(), &["--help"]].concat());
        assert_eq!(help.status, 0, "fleetwright {}: {}", words.join(" "), help.stderr);
    }
}

/// `apt-get install prometheus` has promtool.
#[test]
fn each_alert_fires_and_is_quiet_where_it_should() {
    let Some(promtool) = installed("each_alert_fires_and_is_quiet_where_it_should", "promtool") else { return };
    let promtool = |words: &[&str]| Command::new(&promtool).args(words).current_dir(deploy("prometheus")).output();
    for words in [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]] {
        let ended = promtool(&words).expect("promtool");
        let said = [ended.stdout, ended.stderr].concat();
        assert!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said));
    }
}

/// The values of the series that alerts select, by series: one for each scrape, `_` where a scrape lacks it.
fn values_of_alerts(scrapes: &[Scrape], exprs: &str) -> BTreeMap<String, Vec<String>> {
    let wanted = metrics(exprs);
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (number, scrape) in scrapes.iter().enumerate() {
        for (series, value) in scrape.text.lines().filter_map(|line| line.rsplit_once(' ')) {
            if series.split('{').next().is_some_and(|name| wanted.contains(name)) {
                let of_series = values.entry(series.to_owned()).or_default();
                of_series.resize(number, "_".to_owned());
                of_series.push(value.to_owned());
            }
        }
    }
    values
}

/// Has promtool evaluate the alerts once a minute on these series; an error says which alerts fire, and when.
fn evaluate(promtool: &str, values: &BTreeMap<String, Vec<String>>, minutes: usize) -> Result<(), String> {
    let alerts = read("prometheus/alerts.yaml");
    let series: Vec<Value> =
        values.iter().map(|(series, values)| json!({ "series": series, "values": values.join(" ") })).collect();
    let quiet =
        |name: &str, minute: usize| json!({ "eval_time": format!("{minute}m"), "alertname": name, "exp_alerts": [] });
    let names = after(&alerts, "- alert: ");
    let quiet: Vec<Value> = names.iter().flat_map(|name| (0..minutes).map(move |minute| quiet(name, minute))).collect();
    let test = json!({ "interval": "1m", "input_series": series, "alert_rule_test": quiet });
    let rules = deploy("prometheus/alerts.yaml").canonicalize().expect("the alerts are there");
    let file = json!({ "rule_files": [rules], "evaluation_interval": "1m", "tests": [test] });
    let folder = TempDir::new();
    let path = folder.write_file("simulated.yaml", file.to_string());
    let ended = Command::new(promtool).args(["test", "rules", &path]).output().expect("promtool");
    let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    if ended.status.success() { Ok(()) } else { Err(said) }
}

#[test]
fn alerts_are_quiet_through_a_simulated_day() {
    let Some(promtool) = installed("alerts_are_quiet_through_a_simulated_day", "promtool") else { return };
    let (report, scrapes) = LongRun { load: Load::Daily, hours: 24, seed: 1, off: None }.run_with_scrapes();
    assert!(report.violations.is_empty() && report.launched >= 10, "{report:?}");
    let exprs = after(&read("prometheus/alerts.yaml"), "expr: ").join(" ");
    let mut values = values_of_alerts(&scrapes, &exprs);
    let synced = "fleetwright_cluster_synced{cluster=\"c0\"}";
    assert!(values.len() >= 10 && values.contains_key(synced), "{:?}", values.keys());
    if let Err(fired) = evaluate(&promtool, &values, scrapes.len()) {
        panic!("{fired}");
    }
    // Sabotage: the same day with a cluster that is not synced for 20 minutes.
    values.get_mut(synced).into_iter().flat_map(|values| &mut values[600..620]).for_each(|value| "0".clone_into(value));
    let fired = evaluate(&promtool, &values, scrapes.len()).expect_err("an alert fires");
    assert!(fired.contains("FleetwrightClusterNotSynced") && fired.contains("10h15m"), "{fired}");
}
