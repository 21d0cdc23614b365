//! `fleetwright-sim demo`: the whole system on one host.

use command::exit::{Failure, Status};
use server::clouds;
use simulation::{CloudInterface, demo};

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(plan: demo::Plan) -> Result<Status, Failure> {
    if plan.cloud == CloudInterface::Ec2 {
        clouds::simulated_account::check("--cloud ec2").map_err(Failure::refused)?;
    }
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let collector = plan.collector.as_deref();
    let _traces = runtime
        .block_on(async { telemetry::init_logging_and_tracing(&plan.log, false, collector, "demo") })
        .map_err(Failure::refused)?;
    let well = runtime.block_on(demo::run(plan)).map_err(|error| Failure::internal(format!("{error:#}")))?;
    Ok(if well { Status::Done } else { Status::Leftover })
}
