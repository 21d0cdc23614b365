//! `fleetwright validate`: reads, converts and checks manifests, and plans nothing. For editors,
//! hooks and pull-request checks: an error is `file:line: object: field: message`.

use clap::Args;
use manifests::document::line_of;
use manifests::{InputError, Source};
use planning_input::Options;
use store::clock;

use command::exit::{Failure, Status, one_line};
use command::output;
use command::sources::{self, InputFlags};
use command::wording::counted;

/// Check manifests as `plan` reads them, without planning: every error and note, one a line
#[derive(Debug, Args)]
#[command(
    after_help = "Errors are on standard error, as file:line: object: field: message. Exit status: 0 no errors; 2 \
                        errors, or unreadable input."
)]
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
/// An input that cannot be opened.
pub fn run(flags: &ValidateFlags) -> Result<Status, Failure> {
    let opened = sources::open(&flags.input.paths())?;
    let options = Options {
        region: flags.region.clone(),
        strict: flags.strict,
        // A part of a cluster is checked too: its zones and its other objects may be elsewhere.
        allow_no_zones: true,
        now: clock::now(),
        ..Options::default()
    };
    let captured = match planning_input::read(&opened, &options) {
        Ok(captured) => captured,
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("{}", one_line(&located(error, &opened))));
            return Ok(Status::Refused);
        }
    };
    for note in &captured.notes {
        eprintln!("note: {}", one_line(note));
    }
    let (files, notes) = (counted(opened.len(), "file", "files"), counted(captured.notes.len(), "note", "notes"));
    output::print_text(&format!("{files} checked: no errors, {notes}\n"))?;
    Ok(Status::Done)
}

/// The error with the line of its field.
fn located(error: &InputError, sources: &[Source]) -> String {
    let source = sources.iter().find(|source| source.name == error.source);
    let of_field = || line_of(source?, error.document, &error.path);
    let line = line_in(&error.message).or_else(of_field).map_or_else(String::new, |line| format!(":{line}"));
    let mut text = format!("{}{line}: ", error.source);
    for part in error.object.iter().chain(Some(&error.path)).filter(|part| !part.is_empty()) {
        text.push_str(&format!("{part}: "));
    }
    text + &error.message
}

/// The line that the message of a syntax error names.
fn line_in(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once("line ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_begins_with_file_and_line() {
        let sources = [Source { name: "a.yaml".to_owned(), bytes: b"kind: Pod\nspec:\n  containers: 3\n".to_vec() }];
        let error = |path: &str, message: &str| InputError {
            object: Some("Pod/default/a".to_owned()),
            path: path.to_owned(),
            ..InputError::of_document("a.yaml", 1, message)
        };
        assert_eq!(
            located(&error("spec.containers", "found a number"), &sources),
            "a.yaml:3: Pod/default/a: spec.containers: found a number"
        );
        assert_eq!(located(&error("", "x"), &sources), "a.yaml:1: Pod/default/a: x");
        let syntax = InputError::of_document("a.yaml", 1, "not valid YAML: line 2 column 1: bad");
        assert_eq!(located(&syntax, &sources), "a.yaml:2: not valid YAML: line 2 column 1: bad");
        assert_eq!(located(&InputError::of_source("input", "two regions"), &sources), "input: two regions");
    }
}
