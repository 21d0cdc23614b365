//! `fleetwright plan`: plans from manifests. Does the I/O (files, clock); reading is in
//! [`planning_input`], planning in [`planner`].

mod compare;
mod disrupt;
mod flags;
mod lookup;
mod timings;

pub use flags::PlanFlags;

use model::Text;
use model::input::PlanningInput;
use model::running::RunningCluster;
use model::schedulers::PlannedSchedulers;
use planner::PlannedDecision;
use planning_input::{Captured, Options};
use repack::{RepackSummary, Repacking, repack};

use command::exit::{Failure, Status};
use command::{output, sources};
use compare::Other;
use flags::Output;
use render::Rendering;
use render::colour::coloured;
use render::table::Detail;
use store::clock;
use timings::Measurement;

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: &PlanFlags) -> Result<Status, Failure> {
    flags.refuse_documents_of_reports()?;
    flags.refuse_comparison_without_a_table()?;
    let mut measurement = Measurement::start();
    let captured = read(flags)?;
    measurement.reading_ended();
    if flags.disrupt {
        return disrupt::run(flags, &captured, measurement);
    }
    let planned = plan(flags, captured)?;
    let timings = measurement.deciding_ended(planned.decision.report.search_steps);
    print(flags, &planned)?;
    warn_of_failed_checks(&planned.decision);
    if flags.timings {
        eprintln!("{}", serde_json::to_string(&timings).map_err(Failure::internal)?);
    }
    Ok(status(flags, &planned.decision))
}

/// A plan, and what it was made from.
struct Planned {
    input: PlanningInput,
    decision: PlannedDecision,
    /// Notes of reading, and of repacking.
    notes: Vec<String>,
    repacking: Option<RepackSummary>,
    price_date: Option<Text>,
}

/// Plans what is pending, or with `--repack` what runs as well.
fn plan(flags: &PlanFlags, captured: Captured) -> Result<Planned, Failure> {
    let Captured { input, mut notes, running, price_date, .. } = captured;
    if !flags.repack {
        let decision = planner::plan(&input).map_err(|violations| Failure::failed_check(&violations))?;
        return Ok(Planned { input, decision, notes, repacking: None, price_date });
    }
    refuse_unrepackable(&input, &running)?;
    let Repacking { input, decision, summary } =
        repack(&input, &running).map_err(|violations| Failure::failed_check(&violations))?;
    notes.extend(summary.notes.iter().cloned());
    Ok(Planned { input, decision, notes, repacking: Some(summary), price_date })
}

/// Refuses to repack without nodes, or without NodePools, which alone launch nodes.
fn refuse_unrepackable(input: &PlanningInput, running: &RunningCluster) -> Result<(), Failure> {
    if running.nodes.is_empty() {
        return Err(Failure::refused(
            "--repack: the input has no Node whose price is known, so there is nothing to repack; capture the cluster with \
             its nodes (fleetwright capture, or kubectl get --all-namespaces --output json pods,nodes,…), and pass machine \
             types of your own by --catalogue",
        ));
    }
    if input.pools.is_empty() {
        return Err(Failure::refused(
            "--repack: the input has no NodePool, so no node can be launched; pass one with its EC2NodeClass by one more -f",
        ));
    }
    Ok(())
}

/// Reads the manifests into one planning input.
fn read(flags: &PlanFlags) -> Result<Captured, Failure> {
    flags.refuse_two_readers_of_stdin()?;
    let opened = sources::open(&flags.input.paths())?;
    let options = Options {
        region: flags.region.clone(),
        zones: flags.zones.clone(),
        catalogue: flags.catalogue.as_deref().map(sources::open_file).transpose()?,
        scheduler_config: flags.scheduler_config.as_deref().map(sources::open_file).transpose()?,
        reservations: flags.reservations.clone(),
        autoscaled_replicas: flags.hpa.into(),
        strict: flags.strict,
        repack: flags.repack,
        disrupt: flags.disrupt,
        schedulers: PlannedSchedulers::beside_default(&flags.schedulers),
        preferences: flags.preference_policy.into(),
        min_values: flags.min_values_policy.into(),
        search_steps: flags.search,
        seed: flags.seed,
        max_node_vcpu: flags.max_node_vcpu,
        min_nodes: flags.min_nodes,
        node_overhead: flags.node_overhead_usd,
        nominations: flags.hints,
        now: flags.now.unwrap_or_else(clock::now),
        ..Options::default()
    };
    planning_input::read(opened, &options).map_err(Failure::input)
}

/// Warns on stderr when a plan failed the plan verifier, independent of the output format.
fn warn_of_failed_checks(decision: &PlannedDecision) {
    let failed = &decision.failed_checks;
    let Some(first) = failed.violations.first() else { return };
    match failed.left_out.len() {
        0 if failed.count == 0 => eprintln!(
            "a plan of the search failed the plan verifier ({first}) and one found before is printed; please report this \
             with the input"
        ),
        0 => eprintln!(
            "a plan failed the plan verifier ({first}) and a simpler one is printed; please report this with the input"
        ),
        pods => eprintln!(
            "{pods} pods are left out because every packing with them failed the program's own check ({first}); \
             please report this with the input"
        ),
    }
}

fn print(flags: &PlanFlags, planned: &Planned) -> Result<(), Failure> {
    let Planned { input, decision, .. } = planned;
    if let Some(report) = explanation(flags, input, decision)? {
        return output::print_escaped(|out| out.write_all(report.as_bytes()));
    }
    let comparison = flags.compare.map(|other| other.pack(input, &decision.plan));
    let mut notes: Vec<String> = planned.notes.iter().chain(&decision.report.notes).cloned().collect();
    notes.extend(flags.compare.map(Other::note));
    notes.sort();
    notes.dedup();
    let rendering = Rendering {
        input,
        plan: &decision.plan,
        report: &decision.report,
        price_date: planned.price_date.as_deref(),
        notes: &notes,
        comparison: comparison.as_ref(),
        repacking: planned.repacking.as_ref(),
    };
    match flags.output {
        Output::Table => output::print_styled(|out| render::table::write(&rendering, Detail::Summary, out), coloured),
        Output::Wide => output::print_styled(|out| render::table::write(&rendering, Detail::Wide, out), coloured),
        Output::Name => output::print_escaped(|out| render::table::write_names(&rendering, out)),
        Output::Json => output::print(|out| render::document::write_json(&rendering, out)),
        Output::Yaml => output::print(|out| render::document::write_yaml(&rendering, out)),
        Output::Markdown => output::print(|out| render::markdown::write(&rendering, flags.max_usd, out)),
        Output::Svg => output::print(|out| render::svg::write(&rendering, out)),
    }
}

/// Report for `--explain` or `--explain-node`.
fn explanation(
    flags: &PlanFlags,
    input: &PlanningInput,
    decision: &PlannedDecision,
) -> Result<Option<String>, Failure> {
    if let Some(pod) = &flags.explain {
        let index = lookup::find_pod(&input.pods, pod).map_err(Failure::refused)?;
        return Ok(Some(format!("{}\n", explain::pod_report(input, &decision.plan, index))));
    }
    if let Some(node) = &flags.explain_node {
        let report = explain::node_report(input, &decision.plan, &node.as_str().into());
        let report = report.ok_or_else(|| Failure::refused(lookup::no_such_node(node, input, &decision.plan)))?;
        return Ok(Some(format!("{report}\n")));
    }
    Ok(None)
}

/// Exit status; [`Status::Leftover`] when a pod is unschedulable or the plan exceeds `--max-usd`,
/// reported on stderr.
fn status(flags: &PlanFlags, decision: &PlannedDecision) -> Status {
    let cost = decision.report.new_cost;
    let too_dear = flags.max_usd.filter(|most| cost > *most);
    if let Some(most) = too_dear {
        eprintln!("the new nodes cost ${cost} an hour, more than --max-usd {most}");
    }
    if too_dear.is_some() || !decision.plan.unschedulable.is_empty() { Status::Leftover } else { Status::Done }
}
