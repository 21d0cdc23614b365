//! `fleetwright validate`: reads, converts and checks manifests, and plans nothing. For editors,
//! hooks and pull-request checks.

use clap::Args;
use planning_input::Options;
use store::clock;

use super::exit::{Failure, Status, one_line};
use super::output;
use super::sources::{self, InputFlags};

/// Check manifests as `plan` reads them, without planning: every error and note, one a line
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 no errors; 2 errors, or unreadable input.")]
pub struct ValidateFlags {
    #[command(flatten)]
    input: InputFlags,
    /// Region to check zones against; derived from the manifests when absent
    #[arg(long)]
    region: Option<String>,
    /// Refuse fields that do not exist, and fields of Karpenter objects that their version does not
    /// have, instead of noting them
    #[arg(long)]
    strict: bool,
}

/// Runs the command.
///
/// # Errors
/// Every error of the input.
pub fn run(flags: &ValidateFlags) -> Result<Status, Failure> {
    let opened = sources::open(&flags.input.paths())?;
    let files = opened.len();
    let options = Options {
        region: flags.region.clone(),
        strict: flags.strict,
        // A part of a cluster is checked too: its zones and its other objects may be elsewhere.
        allow_no_zones: true,
        now: clock::now(),
        ..Options::default()
    };
    let captured = planning_input::read(opened, &options).map_err(Failure::input)?;
    for note in &captured.notes {
        eprintln!("note: {}", one_line(note));
    }
    let (files, notes) = (counted(files, "file"), counted(captured.notes.len(), "note"));
    output::print_text(&format!("{files} checked: no errors, {notes}\n"))?;
    Ok(Status::Done)
}

fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
