//! `fleetwright plan --disrupt`: which nodes of a captured cluster may be removed or replaced.

use disruption::Settings;
use planner::CompileCache;
use planning_input::Captured;

use super::flags::{Output, PlanFlags};
use super::timings::Measurement;
use command::exit::{Failure, Status};
use command::output;
use render::colour::coloured;
use render::disruption::Rendering;
use render::{disruption as rendered, markdown};

/// Plans and prints.
pub(super) fn run(flags: &PlanFlags, captured: &Captured, measurement: Measurement) -> Result<Status, Failure> {
    flags.refuse_disruption_without_a_document()?;
    refuse_no_nodes(captured)?;
    let settings = Settings {
        min_savings: flags.min_savings_usd.unwrap_or_default(),
        churn_price: flags.churn_price_usd.unwrap_or_default(),
        spot_to_spot: flags.feature_gates.spot_to_spot_consolidation,
        node_repair: flags.feature_gates.node_repair,
        ..Settings::default()
    };
    let mut cache = CompileCache::default();
    let planned = disruption::plan(&captured.input, &captured.running, &settings, &mut cache);
    let planned = planned.map_err(|violations| Failure::failed_check(&violations))?;
    let timings = measurement.deciding_ended(0);
    for refused in &planned.refused {
        eprintln!("a removal failed the plan verifier ({refused}) and is left out; please report this with the input");
    }
    let mut notes: Vec<String> = captured.notes.iter().chain(&planned.notes).cloned().collect();
    notes.extend(settings_note(&settings));
    notes.extend(
        flags
            .feature_gates
            .without_effect()
            .map(|(gate, why)| format!("the feature gate {gate} changes nothing: {why}")),
    );
    notes.sort();
    notes.dedup();
    let rendering = Rendering { planned: &planned, price_date: captured.price_date.as_deref(), notes: &notes };
    match flags.output {
        Output::Json => output::print(|out| rendered::write_json(&rendering, out))?,
        Output::Yaml => output::print(|out| rendered::write_yaml(&rendering, out))?,
        Output::Markdown => output::print(|out| markdown::disruption::write(&rendering, out))?,
        _ => output::print_styled(|out| rendered::write_table(&rendering, out), coloured)?,
    }
    if flags.timings {
        eprintln!("{}", serde_json::to_string(&timings).map_err(Failure::internal)?);
    }
    Ok(Status::Done)
}

/// Without Nodes, nothing to do would look like a verdict about a cluster.
fn refuse_no_nodes(captured: &Captured) -> Result<(), Failure> {
    if !captured.running.nodes.is_empty() {
        return Ok(());
    }
    Err(Failure::refused(
        "--disrupt: the input has no Node and no NodeClaim, so there is nothing to disrupt; capture the cluster with its \
         nodes (fleetwright capture, or kubectl get --all-namespaces --output json pods,nodes,nodeclaims,nodepools,…)",
    ))
}

/// What consolidation must save, if it is more than nothing.
fn settings_note(settings: &Settings) -> Option<String> {
    let Settings { min_savings, churn_price, .. } = settings;
    (min_savings.0 > 0 || churn_price.0 > 0).then(|| {
        format!("a consolidation saves more than ${min_savings} an hour, and ${churn_price} for each pod that it moves")
    })
}
