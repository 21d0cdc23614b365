//! `/metrics`: the fleet in numbers, in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write;

use engine::control::guardrails::Mode;
use engine::control::view::ClusterView;
use engine::model::Timestamp;

use crate::session::state::CLOCK;
use crate::views::FleetView;

/// One gauge: its name, what it means, and its value in a cluster.
type Gauge = (&'static str, &'static str, fn(&ClusterView) -> String);

const GAUGES: [Gauge; 25] = [
    ("fleetwright_cluster_connected", "Whether the cluster's agent is connected.", |c| {
        u8::from(c.connected).to_string()
    }),
    ("fleetwright_cluster_synced", "Whether the cluster's agent is connected and its snapshot is believed.", |c| {
        u8::from(c.connected && c.synced).to_string()
    }),
    (
        "fleetwright_cluster_synced_timestamp_seconds",
        "When the snapshot came that is believed, in seconds since 1970; 0 while there is none.",
        |c| seconds(c.synced_since.filter(|_| c.connected).unwrap_or_default()),
    ),
    (
        "fleetwright_cluster_problems",
        "Objects and kinds of the cluster that cannot be read or seen, and the agent's clock where it differs.",
        |c| c.problems.len().to_string(),
    ),
    ("fleetwright_cluster_clock_differs", "Whether the agent's clock is more than 30 s from this server's.", |c| {
        u8::from(c.problems.iter().any(|problem| *problem.about == *CLOCK)).to_string()
    }),
    ("fleetwright_pods", "Pods that have not ended.", |c| c.pods.to_string()),
    ("fleetwright_pods_pending", "Pods without a node for which a machine may be bought.", |c| c.pending.to_string()),
    ("fleetwright_nodes", "Nodes in the cluster, ours and others.", |c| c.nodes.to_string()),
    ("fleetwright_cost_usd_per_hour", "What the cluster's machines cost, in dollars per hour.", |c| c.cost.to_string()),
    ("fleetwright_decisions_refused", "Whether the last plan was refused.", |c| {
        u8::from(c.refused.is_some()).to_string()
    }),
    ("fleetwright_rails_quarantined", "Whether the cluster's snapshot is not believed.", |c| {
        u8::from(c.rails.quarantine.is_some()).to_string()
    }),
    ("fleetwright_rails_shadow", "Whether decisions are written down and not carried out.", |c| {
        u8::from(c.rails.mode == Mode::Shadow).to_string()
    }),
    ("fleetwright_rails_freezes", "Freezes that concern the cluster.", |c| c.rails.freezes.len().to_string()),
    (
        "fleetwright_rails_brake",
        "Whether nothing is removed because launches fail, in the cluster or in several of the fleet.",
        |c| u8::from(c.rails.brake.is_some()).to_string(),
    ),
    ("fleetwright_rails_launches_held", "Whether launches were held back when last looked at.", |c| {
        u8::from(c.rails.held_launches.is_some()).to_string()
    }),
    ("fleetwright_rails_removals_held", "Whether removals were held back when last looked at.", |c| {
        u8::from(c.rails.held_removals.is_some()).to_string()
    }),
    ("fleetwright_rails_pods_waiting", "Pods that machines were launched for in vain and that wait.", |c| {
        c.rails.pods_waiting.to_string()
    }),
    (
        "fleetwright_rails_removals_waiting",
        "Removals that wait for evidence, for a freeze or a bound, or for a person.",
        |c| c.rails.waiting.len().to_string(),
    ),
    (
        "fleetwright_rails_listing_doubted",
        "Whether the cloud's listings of the cluster's machines are not believed.",
        |c| u8::from(c.rails.listing_doubted.is_some()).to_string(),
    ),
    (
        "fleetwright_orphaned_instances",
        "Machines with the cluster's tags that no NodeClaim stands for and that are not given back yet.",
        |c| c.astray.orphaned.to_string(),
    ),
    (
        "fleetwright_foreign_instances",
        "Machines of the cluster whose tags say that they are another's, or have gone.",
        |c| c.astray.foreign.to_string(),
    ),
    ("fleetwright_terminate_refused", "Machines that the cloud refuses to give back.", |c| {
        c.astray.refused.to_string()
    }),
    ("fleetwright_launches_joined", "Machines that joined the cluster within the window of the brake.", |c| {
        c.rails.joined.to_string()
    }),
    (
        "fleetwright_launches_failed",
        "Launches that were refused, and machines that did not join in time, within the window of the brake.",
        |c| c.rails.failed.to_string(),
    ),
    ("fleetwright_rails_launches_in_window", "Machines launched within the window of the bounds.", |c| {
        c.rails.launched.to_string()
    }),
];

fn seconds(at: Timestamp) -> String {
    format!("{}.{:03}", at.0.div_euclid(1_000), at.0.rem_euclid(1_000))
}

/// Every gauge of every cluster.
pub(super) fn render(view: &FleetView) -> String {
    let mut text = String::new();
    for (name, help, value) in GAUGES {
        head(&mut text, name, help);
        for (cluster, view) in &view.clusters {
            line(&mut text, name, &format!("cluster=\"{}\"", escape(cluster)), &value(view));
        }
    }
    head(&mut text, "fleetwright_machines", "Machines by where they stand in their life.");
    for (cluster, view) in &view.clusters {
        let mut stages: BTreeMap<&str, usize> = BTreeMap::new();
        view.machines.iter().for_each(|machine| *stages.entry(machine.stage.as_str()).or_default() += 1);
        for (stage, count) in stages {
            let labels = format!("cluster=\"{}\",stage=\"{stage}\"", escape(cluster));
            line(&mut text, "fleetwright_machines", &labels, &count.to_string());
        }
    }
    text
}

fn head(text: &mut String, name: &str, help: &str) {
    let _infallible = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
}

fn line(text: &mut String, name: &str, labels: &str, value: &str) {
    let _infallible = writeln!(text, "{name}{{{labels}}} {value}");
}

/// A label's value as the format wants it.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
