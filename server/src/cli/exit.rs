//! How a command ends: one status, and for failures one line for the person who reads it.

use std::fmt;
use std::process::ExitCode;

/// Exit status of every subcommand (plan contract §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// All went well: every planned pod is placed.
    Done,
    /// It ran, and something is left over: a pod without a place, a price above `--max-usd`.
    Leftover,
    /// The input, the flags or the configuration were refused.
    Refused,
    /// A fault of this program or of something that it relies on.
    Internal,
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

/// Why a command gave up.
#[derive(Debug)]
pub(crate) struct Failure {
    /// [`Status::Refused`] or [`Status::Internal`].
    pub(crate) status: Status,
    /// One message a line of stderr.
    pub(crate) messages: Vec<String>,
}

impl Failure {
    /// The user can mend it: input, flags, configuration.
    pub(crate) fn refused(message: impl fmt::Display) -> Self {
        Self { status: Status::Refused, messages: vec![message.to_string()] }
    }

    /// Everything that is wrong with the input.
    pub(crate) fn input(errors: Vec<manifests::InputError>) -> Self {
        Self { status: Status::Refused, messages: errors.iter().map(ToString::to_string).collect() }
    }

    /// The user cannot mend it by other input.
    pub(crate) fn internal(message: impl fmt::Display) -> Self {
        Self { status: Status::Internal, messages: vec![message.to_string()] }
    }

    /// Prints every message as one line of stderr and says how to end.
    pub(crate) fn report(self) -> Status {
        for message in &self.messages {
            eprintln!("error: {}", one_line(message));
        }
        self.status
    }
}

/// `text` on a single line: line breaks inside a message become "; ", other control characters are dropped.
pub(crate) fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_several_lines_is_printed_as_one() {
        assert_eq!(one_line("bad\n  value\u{1b}[31m\n"), "bad; value[31m");
    }
}
