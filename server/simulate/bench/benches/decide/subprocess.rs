//! Runs one case in a process of its own: this program again.

use std::env;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::flags::Flags;
use crate::measure::Measurement;

/// Measures the case called `name`.
pub fn run(name: &str, flags: &Flags) -> Result<Measurement> {
    let mut command = Command::new(env::current_exe().context("looking for this program")?);
    command.args(["--case", name, "--runs", &flags.runs.to_string()]);
    if let Some(data) = &flags.data {
        command.arg("--data").arg(data);
    }
    let ended = command.output().with_context(|| format!("starting the case {name}"))?;
    if !ended.status.success() {
        bail!("the case {name} failed: {}", String::from_utf8_lossy(&ended.stderr).trim());
    }
    serde_json::from_slice(&ended.stdout).with_context(|| format!("reading the measurement of {name}"))
}
