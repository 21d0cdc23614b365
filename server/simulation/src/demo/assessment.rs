//! The result of a demo, from the ledgers of the cloud and the clusters.

use std::collections::BTreeMap;
use std::fmt::Write;

use cloud::simulated::SimulatedCloud;
use model::ClusterName;

use super::ledger::ClusterLedger;
use store::clock;

/// Maximum number of names per line.
const NAMES_SHOWN: usize = 3;

/// The result and its explanation.
pub(super) struct Assessment {
    /// Every pod ran, every empty node was removed, no instance was launched twice.
    pub(super) success: bool,
    /// Text for the terminal.
    pub(super) text: String,
}

/// Assesses the ledgers. An interrupted demo (`stopped`) is not judged by its unfinished steps.
pub(super) fn assess(
    clusters: &BTreeMap<ClusterName, ClusterLedger>,
    cloud: &SimulatedCloud,
    stopped: bool,
) -> Assessment {
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
    // Clusters first, then the cloud: the failures below refer to both.
    let ledger = cloud.ledger();
    let _infallible = writeln!(
        text,
        "Ledger of the cloud:\n  {} instances launched, {} running, {} interrupted, ${} spent; {} launches refused for lack of \
         capacity, {} calls throttled, {} answers lost",
        ledger.launched_count(),
        ledger.active().count(),
        ledger.interrupted(),
        ledger.spent(clock::now()),
        ledger.refused,
        ledger.throttled,
        ledger.answers_lost,
    );
    let faults = faults(clusters, cloud);
    let success = stopped || faults.is_empty();
    match (stopped, faults.is_empty()) {
        (true, _) => text.push_str("Stopped before the scenario ended.\n"),
        (false, true) => text.push_str("It went well: every pod ran and every empty node was removed.\n"),
        (false, false) => faults.iter().for_each(|fault| text.push_str(&format!("It did not go well: {fault}\n"))),
    }
    Assessment { success, text }
}

fn faults(clusters: &BTreeMap<ClusterName, ClusterLedger>, cloud: &SimulatedCloud) -> Vec<String> {
    let mut faults = Vec::new();
    let ledger = cloud.ledger();
    if ledger.launched_count() == 0 && ledger.refused > 0 {
        let refused = ledger.refused;
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
    for (cluster, claim) in cloud.ledger().duplicate_launches() {
        faults.push(format!("{cluster}: more than one instance was launched for NodeClaim {claim}"));
    }
    let alive = cloud.ledger().active().count();
    if faults.is_empty() && alive > 0 {
        faults.push(format!("{alive} instances are still billed although no cluster has a node"));
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
    use cloud::simulated::FaultProfile;

    use super::*;

    fn cloud() -> SimulatedCloud {
        SimulatedCloud::new(FaultProfile::default(), None)
    }

    fn one(ledger: ClusterLedger) -> BTreeMap<ClusterName, ClusterLedger> {
        BTreeMap::from([(ClusterName::from("amber"), ledger)])
    }

    #[test]
    fn a_finished_scenario_with_a_clean_ledger_succeeds() {
        let assessment = assess(
            &one(ClusterLedger { finished: true, created: 3, ran: 3, ..ClusterLedger::default() }),
            &cloud(),
            false,
        );
        assert!(assessment.success);
        assert!(assessment.text.contains("every pod ran and every empty node was removed"), "{}", assessment.text);
    }

    #[test]
    fn pods_that_never_ran_are_named() {
        let waiting_names = vec!["shop/web-0".to_owned()];
        let assessment =
            assess(&one(ClusterLedger { waiting: 1, waiting_names, ..ClusterLedger::default() }), &cloud(), false);
        assert!(!assessment.success);
        assert!(assessment.text.contains("amber: pods that never ran: shop/web-0\n"), "{}", assessment.text);
    }

    #[test]
    fn a_remaining_empty_node_and_an_unfinished_scenario_are_failures() {
        let empty = ClusterLedger { finished: true, empty_nodes: vec!["ip-x".to_owned()], ..ClusterLedger::default() };
        assert!(!assess(&one(empty), &cloud(), false).success);
        assert!(!assess(&one(ClusterLedger::default()), &cloud(), false).success);
        assert!(assess(&one(ClusterLedger::default()), &cloud(), true).success);
    }
}
