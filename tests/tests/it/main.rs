//! One binary for all end-to-end tests of the command line.

mod access;
mod agent_stream;
mod alerts;
mod attack;
mod bad_input;
mod capture;
mod client_errors;
mod consolidation;
mod crashes;
mod crates;
mod cut_off;
mod dashboard;
mod demo;
mod deploy;
mod field_masks;
mod forget;
mod freeze;
mod holds;
mod hostile;
mod impostor;
mod incidents;
mod load;
mod machine_records;
mod mistakes;
mod monitoring;
mod night;
mod outages;
mod own_database;
mod plan;
mod plan_disrupt;
mod problems;
mod relists;
mod removals;
mod repack;
mod replay;
mod replicas;
mod serve;
mod sign_in;
mod top;
mod traces;
mod trust;

use std::time::{Duration, Instant};

use e2e::{ExitResult, Program, RunningProcess};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_fleetwright-e2e");

/// The simulator: servers on a simulated cloud, clouds, clusters, and long runs.
const SIMULATOR: &str = env!("CARGO_BIN_EXE_fleetwright-e2e-sim");

/// Generous, for busy machines.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs `fleetwright` with these arguments.
fn fleetwright(arguments: &[&str]) -> ExitResult {
    Program::new(PROGRAM, arguments).run(TIMEOUT)
}

/// Runs `fleetwright-sim` with these arguments.
fn simulator(arguments: &[&str]) -> ExitResult {
    Program::new(SIMULATOR, arguments).run(TIMEOUT)
}

/// Starts the agent of a simulated cluster that repeats its script.
fn start_agent(server: &str, cluster: &str) -> RunningProcess {
    let agent = ["simulated-agent", "--server", server, "--cluster-name", cluster, "--seed", "1", "--log", "off"];
    Program::new(SIMULATOR, &[&agent[..], &["--repeat"]].concat()).start()
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_there() {
        assert!(Instant::now() < end, "waited for {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
