//! Facts of a plan, in the format of expectations.

use std::collections::BTreeMap;
use std::fmt;

use model::MicroUsd;
use model::plan::PlannedNode;
use planner::PlannedDecision;
use planning_input::Captured;

use crate::case::Case;
use crate::pods::short;

pub enum Outcome {
    Planned(Facts),
    /// The errors of the input.
    Refused(Vec<String>),
    /// The violations that the verifier found in the plan.
    Faulty(Vec<String>),
}

/// The facts of a plan that expectations name.
pub struct Facts {
    pub nodes: Vec<NodeFact>,
    pub statics: Vec<NodeFact>,
    /// (pod, node)
    pub placed: Vec<(String, String)>,
    pub unplaced: BTreeMap<String, Vec<ReasonFact>>,
    pub fits_if: BTreeMap<String, Vec<String>>,
    pub cost: MicroUsd,
    pub bound: MicroUsd,
    pub notes: Vec<String>,
}

pub struct NodeFact {
    pub pool: String,
    pub capacity: &'static str,
    pub types: Vec<String>,
    pub zones: Vec<String>,
    pub price: MicroUsd,
    pub credits: MicroUsd,
    pub pods: Vec<String>,
    pub labels: BTreeMap<String, String>,
}

/// A reason why one pod is unschedulable.
pub struct ReasonFact {
    pub pool: String,
    pub code: &'static str,
    pub message: String,
}

/// Plans `case`.
pub fn plan(case: &Case) -> Outcome {
    let captured = match planning_input::read(&case.sources, &case.options) {
        Ok(captured) => captured,
        Err(errors) => return Outcome::Refused(errors.iter().map(ToString::to_string).collect()),
    };
    match planner::plan(&captured.input) {
        Ok(decision) => Outcome::Planned(facts(&captured, &decision)),
        Err(violations) => Outcome::Faulty(violations.iter().map(ToString::to_string).collect()),
    }
}

fn facts(captured: &Captured, decision: &PlannedDecision) -> Facts {
    let input = &captured.input;
    let pod = |at: u32| short(&input.pods[at as usize].namespace, &input.pods[at as usize].name);
    let node = |planned: &PlannedNode| {
        let pool = &input.pools[planned.pool as usize];
        NodeFact {
            pool: pool.name.to_string(),
            capacity: planned.capacity_type.as_str(),
            types: planned.types.iter().map(|at| pool.catalogue.types[*at as usize].name.to_string()).collect(),
            zones: planned.zones.iter().map(ToString::to_string).collect(),
            price: planned.price,
            credits: planned.credits,
            pods: planned.pods.iter().map(|at| pod(*at)).collect(),
            labels: planned.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        }
    };
    let (plan, report) = (&decision.plan, &decision.report);
    let reasons = |reasons: &[model::plan::Reason]| {
        let fact = |reason: &model::plan::Reason| ReasonFact {
            pool: reason.pool.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            code: reason.code.as_str(),
            message: reason.message.clone(),
        };
        reasons.iter().map(fact).collect::<Vec<ReasonFact>>()
    };
    // Every unschedulable pod has an entry, also one without reasons, which the comparison reports.
    let mut unplaced: BTreeMap<String, Vec<ReasonFact>> =
        plan.unschedulable.iter().map(|at| (pod(*at), Vec::new())).collect();
    unplaced.extend(report.unschedulable.iter().map(|one| (pod(one.pod), reasons(&one.reasons))));
    Facts {
        nodes: plan.nodes.iter().map(node).collect(),
        statics: plan.static_nodes.iter().map(node).collect(),
        placed: plan.placements.iter().map(|(at, n)| (pod(*at), input.nodes[*n as usize].name.to_string())).collect(),
        unplaced,
        fits_if: report.unschedulable.iter().map(|one| (pod(one.pod), one.fits_if.to_vec())).collect(),
        cost: report.new_cost,
        bound: report.lower_bound,
        notes: captured.notes.iter().chain(&report.notes).cloned().collect(),
    }
}

impl fmt::Display for NodeFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (types, zones, pods) = (self.types.join(","), self.zones.join(","), self.pods.join(","));
        write!(f, "{} {} types={types} price={} zones={zones} pods={pods}", self.pool, self.capacity, self.price)
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.nodes.iter().try_for_each(|node| writeln!(f, "  node {node}"))?;
        self.statics.iter().try_for_each(|node| writeln!(f, "  static {node}"))?;
        self.placed.iter().try_for_each(|(pod, node)| writeln!(f, "  placed {pod} -> {node}"))?;
        for (pod, reasons) in &self.unplaced {
            for reason in reasons {
                writeln!(f, "  unschedulable {pod} {} {}: {}", reason.pool, reason.code, reason.message)?;
            }
            if reasons.is_empty() {
                writeln!(f, "  unschedulable {pod} without a reason")?;
            }
        }
        for (pod, relaxations) in &self.fits_if {
            relaxations.iter().try_for_each(|relaxation| writeln!(f, "  fits-if {pod}: {relaxation}"))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  note {note}"))?;
        write!(f, "  cost {} bound {}", self.cost, self.bound)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Planned(facts) => facts.fmt(f),
            Self::Refused(errors) => write!(f, "  refused {}", errors.join("\n  refused ")),
            Self::Faulty(faults) => write!(f, "  fails its own check: {}", faults.join("\n  ")),
        }
    }
}
