//! Output of a result.

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use command::exit::{Failure, Status};
use command::output;

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

/// Flags of a run on real processes: its plan, and how the result is printed.
#[derive(Debug, Args)]
pub(crate) struct RunFlags<P: Args> {
    #[command(flatten)]
    pub(super) plan: P,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub(super) output: Form,
}

/// The result of a run.
pub(super) trait Findings: Serialize {
    fn is_success(&self) -> bool;

    fn table(&self) -> String;

    /// The result as JSON.
    fn document(&self) -> Value {
        let mut document = json!(self);
        document["well"] = json!(self.is_success());
        document
    }
}

impl<P: Args> RunFlags<P> {
    /// Runs the plan, which has the log filter `log`, and prints the result.
    pub(super) fn run<R: Findings>(
        &self,
        log: &str,
        run: impl AsyncFnOnce(&P) -> anyhow::Result<R>,
    ) -> Result<Status, Failure> {
        let internal = |error: anyhow::Error| Failure::internal(format!("{error:#}"));
        let report = started(log)?.block_on(run(&self.plan)).map_err(internal)?;
        self.output.print(|| report.table(), || report.document())?;
        Ok(if report.is_success() { Status::Done } else { Status::Leftover })
    }
}

/// A runtime, with logging by the filter `log`.
pub(super) fn started(log: &str) -> Result<tokio::runtime::Runtime, Failure> {
    telemetry::init_logging(log, false).map_err(Failure::refused)?;
    tokio::runtime::Runtime::new().map_err(|error| Failure::internal(format!("no runtime: {error}")))
}
