//! The agent beside a real API server and a real kube-scheduler. `cargo test -p e2e --test kubernetes [-- part of a name]`

mod agent;
mod crds;
mod stage;

use std::process::ExitCode;
use std::time::Duration;

use e2e::kubernetes::suite::{self, Programs, Scenario};

fn main() -> ExitCode {
    let programs = Programs {
        server: env!("CARGO_BIN_EXE_fleetwright-e2e").into(),
        agent: env!("CARGO_BIN_EXE_fleetwright-e2e-agent").into(),
    };
    suite::run(
        &programs,
        &[
            Scenario {
                name: "machines_join_run_pods_and_leave_as_kubelets_do",
                limit: Duration::from_secs(120),
                needs_own: false,
                play: |stage| Box::pin(stage::machines_join_run_pods_and_leave(stage)),
            },
            crds::STORED,
            crds::REFUSED,
            agent::MACHINE,
            agent::DEADLINE,
            agent::PICTURES,
            agent::OUTLIVE,
            agent::REPLICAS,
            agent::EPOCHS,
        ],
    )
}
