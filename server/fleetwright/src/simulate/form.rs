//! Output formats of a result.

use clap::ValueEnum;
use serde_json::Value;

use server::cli::exit::Failure;
use server::cli::output;

/// Output format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    Table,
    Json,
}

impl Form {
    pub(super) fn print(self, table: impl FnOnce() -> String, document: impl FnOnce() -> Value) -> Result<(), Failure> {
        match self {
            Self::Table => output::print_text(&table()),
            Self::Json => output::print_document(&format!("{:#}\n", document())),
        }
    }
}
