//! The EC2 provider, judged over HTTP by two clouds that it shares no code with: the simulated EC2 (`simulated`) and
//! moto (`moto`), and with Karpenter's own examples (`examples`). Server processes that launch there are judged by its
//! log (`lost_answer`), and so are the rate limits that two replicas share (`api_budget`). Nodes drift from what their
//! EC2NodeClass selects there (`drift`), and launches follow its prices (`prices`). Alerts fire while it refuses calls
//! (`alerts`), and operators see why (`outages`).
//! `cargo test -p e2e --test ec2 [-- part of a name]`
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod account;
mod accounts;
mod alerts;
mod api_budget;
mod demo;
mod drift;
mod examples;
mod lost_answer;
mod moto;
mod moto_server;
mod offerings;
mod outages;
mod prices;
mod simulated;

use std::io::Write as _;

use e2e::{Postgres, Program, RunningProcess};
use simulated_ec2::SimulatedEc2;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_fleetwright-e2e");

const SIMULATOR: &str = env!("CARGO_BIN_EXE_fleetwright-e2e-sim");

/// Written past the capture of the test's output.
fn report(line: std::fmt::Arguments<'_>) {
    let _no_terminal = writeln!(std::io::stderr(), "{line}");
}

/// Serves the endpoint for as long as the test's runtime runs; returns its URL.
async fn serve_endpoint(ec2: &SimulatedEc2) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = ec2.clone();
    tokio::spawn(async move { served.serve(listener, std::future::pending()).await });
    url
}

/// The program with credentials for a simulated EC2, which verifies no signature; no others are looked for.
fn with_simulated_credentials(program: Program) -> Program {
    let program = program.env("AWS_ACCESS_KEY_ID", "simulated").env("AWS_SECRET_ACCESS_KEY", "simulated");
    program.env("AWS_EC2_METADATA_DISABLED", "true")
}

/// A server on `database` that launches by `endpoint`, with these settings besides.
fn serve_on_ec2(region: &str, grpc: &str, endpoint: &str, database: &Postgres, more: &[&str]) -> RunningProcess {
    let flags = [
        ["--listen-grpc", grpc],
        ["--listen-http", "127.0.0.1:0"],
        ["--cloud-region", region],
        ["--cloud-endpoint", endpoint],
        ["--lease-owner", "server"],
        ["--lease-duration", "15s"],
        ["--control-batch-idle", "100ms"],
    ];
    let program = Program::new(PROGRAM, &[&["serve"], flags.as_flattened(), more].concat());
    let program =
        program.env("FLEETWRIGHT_STORE_MEMORY", "false").env("FLEETWRIGHT_STORE_DATABASE_URL", &database.url());
    with_simulated_credentials(program).start()
}
