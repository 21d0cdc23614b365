//! The EC2 provider, judged over HTTP by two clouds that it shares no code with: the simulated EC2 (`simulated`) and
//! moto (`moto`), and with Karpenter's own examples (`examples`). Server processes that launch there are judged by its
//! log (`lost_answer`), and so are the rate limits that two replicas share (`api_budget`).
//! `cargo test -p e2e --test ec2 [-- part of a name]`
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod account;
mod api_budget;
mod demo;
mod examples;
mod lost_answer;
mod moto;
mod moto_server;
mod offerings;
mod simulated;

use std::io::Write as _;

/// Written past the capture of the test's output.
fn report(line: std::fmt::Arguments<'_>) {
    let _no_terminal = writeln!(std::io::stderr(), "{line}");
}
