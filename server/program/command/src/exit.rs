//! Exit status of a command; failures print one line each.

use settings::ConfigErrors;
use std::fmt;
use std::process::ExitCode;

/// Exit status of every subcommand (plan contract §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Success: every planned pod is placed.
    Done,
    /// Completed with a remainder: an unschedulable pod, or a price above `--max-usd`.
    Leftover,
    /// Invalid input, flags or configuration.
    Refused,
    /// Internal error, or failure of a dependency.
    Internal,
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self { status: Status::Refused, messages: errors.messages() }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Done => 0,
            Status::Leftover => 1,
            Status::Refused => 2,
            Status::Internal => 3,
        })
    }
}

/// Failure of a command.
#[derive(Debug)]
pub struct Failure {
    /// [`Status::Refused`] or [`Status::Internal`].
    pub status: Status,
    /// Messages, one line of stderr each.
    pub messages: Vec<String>,
}

impl Failure {
    /// Failure that the user can fix: input, flags, configuration.
    pub fn refused(message: impl fmt::Display) -> Self {
        Self { status: Status::Refused, messages: vec![message.to_string()] }
    }

    /// All errors of the input.
    pub fn input(errors: Vec<manifests::InputError>) -> Self {
        Self { status: Status::Refused, messages: errors.iter().map(ToString::to_string).collect() }
    }

    /// Even a plan that changes nothing fails the plan verifier.
    pub fn failed_check(violations: &[impl fmt::Display]) -> Self {
        let head = "even an empty plan fails the plan verifier, so none is printed; please report this with the input";
        let messages = std::iter::once(head.to_owned()).chain(violations.iter().map(ToString::to_string)).collect();
        Self { status: Status::Internal, messages }
    }

    /// Failure that the user cannot fix by other input.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self { status: Status::Internal, messages: vec![message.to_string()] }
    }

    /// Prints every message as one line of stderr and returns the exit status.
    pub fn report(self) -> Status {
        for message in &self.messages {
            eprintln!("error: {}", one_line(message));
        }
        self.status
    }
}

/// `text` on a single line: line breaks become "; ", other control characters are removed.
pub fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_multi_line_message_is_printed_on_one_line() {
        assert_eq!(one_line("bad\n  value\u{1b}[31m\n"), "bad; value[31m");
    }
}
