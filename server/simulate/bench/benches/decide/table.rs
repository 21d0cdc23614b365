//! The table as text.

use crate::cases::Family;
use crate::measure::Measurement;
use crate::proc;

pub const HEAD: &str = "case                    pods shapes unplaced  nodes     $/hour      bound   gap |  decide ms CPU (least..most)   again  = schedule  check  bound  explain |  peak MiB (input)";

pub fn machine() -> String {
    let (load, processors) = proc::load();
    format!("{processors} processors, load of the last minute {load}; CPU time of the deciding thread, medians")
}

pub fn row(name: &str, f: &Measurement) -> String {
    let gap = if f.bound > 0.0 { (f.cost / f.bound - 1.0) * 100.0 } else { 0.0 };
    let money = format!("{:10.4} {:10.4} {gap:5.1}%", f.cost, f.bound);
    let spread = format!("{:10.2} ({:.2}..{:.2})", f.decide.median, f.decide.least, f.decide.most);
    let parts = format!("{:10.2} {:6.2} {:6.2} {:8.2}", f.schedule, f.check, f.bounding, f.explain);
    format!(
        "{name:<20} {:7} {:6} {:8} {:6} {money} | {spread:<29} {:7.2} {parts} | {:9.1} ({:.1})",
        f.pods, f.shapes, f.unplaced, f.nodes, f.again, f.peak_mib, f.input_mib
    )
}

/// The exponent of a family of cases.
pub fn growth(family: Family, points: &[(f64, f64)], exponent: f64) -> String {
    let from = points.first().map_or(0.0, |point| point.0);
    let to = points.last().map_or(0.0, |point| point.0);
    format!("{family:?}: time grows with pods to the power of {exponent:.2}, {from} to {to} pods")
}
