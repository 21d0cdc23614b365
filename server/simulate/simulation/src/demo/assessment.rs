//! The result of a demo, from the ledgers of the cloud and the clusters.

use std::collections::BTreeMap;
use std::fmt::Write;

use model::ClusterName;

use super::cloud_ledger::CloudLedger;
use super::ledger::ClusterLedger;
use super::notices::Notices;

/// Maximum number of names per line.
const NAMES_SHOWN: usize = 3;

pub(super) struct Assessment {
    /// Every pod ran, every empty node was removed, no instance was launched twice, and no notice is missing.
    pub(super) success: bool,
    pub(super) text: String,
}

/// Assesses the ledgers of the clusters and the cloud, and the notices of the queue, if there is one. An interrupted
/// demo (`stopped`) is not judged by its unfinished steps.
pub(super) fn assess(
    clusters: &BTreeMap<ClusterName, ClusterLedger>,
    cloud: &CloudLedger,
    notices: Option<&Notices>,
    stopped: bool,
) -> Assessment {
    // Clusters first, then the cloud: the failures below refer to both.
    let mut text = clusters_text(clusters);
    text.push_str(&cloud_text(cloud));
    text.extend(notices.map(notices_text));
    let mut faults = if stopped { Vec::new() } else { faults(clusters, cloud) };
    faults.extend(notices.and_then(missing_notices));
    let success = faults.is_empty();
    if stopped {
        text.push_str("Stopped before the scenario ended.\n");
    } else if success {
        text.push_str("It went well: every pod ran and every empty node was removed.\n");
    }
    faults.iter().for_each(|fault| text.push_str(&format!("It did not go well: {fault}\n")));
    Assessment { success, text }
}

fn clusters_text(clusters: &BTreeMap<ClusterName, ClusterLedger>) -> String {
    let mut text = String::from("\nLedgers of the clusters:\n");
    for (name, ledger) in clusters {
        let _infallible = writeln!(
            text,
            "  {name:<10} {} pods created, {} ran (longest wait {}.{} s), {} replaced before they ran, {} never ran; {} nodes joined, \
             {} removed, {} empty",
            ledger.created,
            ledger.ran,
            ledger.longest_wait_ms / 1000,
            ledger.longest_wait_ms % 1000 / 100,
            ledger.withdrawn,
            ledger.waiting,
            ledger.joined,
            ledger.removed,
            ledger.empty_nodes.len(),
        );
    }
    text
}

fn cloud_text(cloud: &CloudLedger) -> String {
    format!(
        "Ledger of the cloud:\n  {} instances launched, {} running, {} interrupted, ${} spent; {} launches refused for lack of \
         capacity, {} calls throttled, {} answers lost\n",
        cloud.launched,
        cloud.running,
        cloud.interrupted,
        cloud.spent,
        cloud.refused,
        cloud.throttled,
        cloud.answers_lost,
    )
}

fn notices_text(notices: &Notices) -> String {
    format!(
        "Notices through EventBridge and SQS:\n  {} recorded, {} of them of spot interruptions; {} missing\n",
        notices.recorded,
        notices.of_interruptions,
        notices.missing.len(),
    )
}

fn missing_notices(notices: &Notices) -> Option<String> {
    let names: Vec<String> = notices.missing.iter().map(ToString::to_string).collect();
    let list = list(&names, names.len());
    (!names.is_empty()).then(|| format!("instances were interrupted, and their notice was not received: {list}"))
}

fn faults(clusters: &BTreeMap<ClusterName, ClusterLedger>, cloud: &CloudLedger) -> Vec<String> {
    let mut faults = Vec::new();
    if cloud.launched == 0 && cloud.refused > 0 {
        let refused = cloud.refused;
        faults.push(format!("the simulated cloud has no capacity (--no-capacity): it refused all {refused} launches"));
    }
    for (name, ledger) in clusters {
        if ledger.waiting > 0 {
            faults.push(format!("{name}: pods that never ran: {}", list(&ledger.waiting_names, ledger.waiting)));
        }
        if !ledger.empty_nodes.is_empty() {
            let empty = list(&ledger.empty_nodes, ledger.empty_nodes.len());
            faults.push(format!("{name}: empty nodes that were not removed: {empty}"));
        }
        if !ledger.finished && ledger.waiting == 0 && ledger.empty_nodes.is_empty() {
            faults.push(format!("{name}: time ran out during {:?}", ledger.scene));
        }
    }
    for (cluster, claim) in &cloud.launched_twice {
        faults.push(format!("{cluster}: more than one instance was launched for NodeClaim {claim}"));
    }
    let running = cloud.running;
    if faults.is_empty() && running > 0 {
        faults.push(format!("{running} instances are still billed although no cluster has a node"));
    }
    faults
}

fn list(names: &[String], count: usize) -> String {
    let shown = names.len().min(NAMES_SHOWN);
    let more = if count > shown { format!(" and {} more", count - shown) } else { String::new() };
    format!("{}{more}", names[..shown].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(ledger: ClusterLedger) -> BTreeMap<ClusterName, ClusterLedger> {
        BTreeMap::from([(ClusterName::from("amber"), ledger)])
    }

    /// The assessment of one cluster, without a queue.
    fn assess_one(ledger: ClusterLedger, stopped: bool) -> Assessment {
        assess(&one(ledger), &CloudLedger::default(), None, stopped)
    }

    fn finished() -> ClusterLedger {
        ClusterLedger { finished: true, created: 3, ran: 3, ..ClusterLedger::default() }
    }

    #[test]
    fn a_finished_scenario_with_a_clean_ledger_succeeds() {
        let assessment = assess_one(finished(), false);
        assert!(assessment.success);
        assert!(assessment.text.contains("every pod ran and every empty node was removed"), "{}", assessment.text);
        assert!(!assessment.text.contains("EventBridge"), "there is no queue: {}", assessment.text);
    }

    #[test]
    fn pods_that_never_ran_are_named() {
        let waiting_names = vec!["shop/web-0".to_owned()];
        let assessment = assess_one(ClusterLedger { waiting: 1, waiting_names, ..ClusterLedger::default() }, false);
        assert!(!assessment.success);
        assert!(assessment.text.contains("amber: pods that never ran: shop/web-0\n"), "{}", assessment.text);
    }

    #[test]
    fn a_remaining_empty_node_and_an_unfinished_scenario_are_failures() {
        let empty = ClusterLedger { finished: true, empty_nodes: vec!["ip-x".to_owned()], ..ClusterLedger::default() };
        assert!(!assess_one(empty, false).success);
        assert!(!assess_one(ClusterLedger::default(), false).success);
        assert!(assess_one(ClusterLedger::default(), true).success);
    }

    #[test]
    fn an_interrupted_instance_whose_notice_was_not_received_is_a_failure_of_any_demo() {
        let notices = |missing| Notices { recorded: 5, of_interruptions: 2, missing };
        let (received, missing) = (notices(Vec::new()), notices(vec!["i-1".into()]));
        for stopped in [false, true] {
            let assess = |notices| assess(&one(finished()), &CloudLedger::default(), Some(notices), stopped);
            assert!(assess(&received).success);
            let assessment = assess(&missing);
            assert!(!assessment.success);
            let text = assessment.text;
            assert!(text.contains("5 recorded, 2 of them of spot interruptions; 1 missing\n"), "{text}");
            let fault = "It did not go well: instances were interrupted, and their notice was not received: i-1\n";
            assert!(text.contains(fault), "{text}");
        }
    }
}
