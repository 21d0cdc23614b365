//! Starts the processes: a cloud with slow calls, so that crash points are wide, and a server
//! without guardrail limits.

use super::plan::Plan;
use crate::processes::{CloudProcess, ServerProcess, without_bounds};

/// Maximum delay of a call and of its answer, in milliseconds, as under a busy EC2.
pub(super) const ARRIVAL_MS: i64 = 150;
const ANSWER_MS: i64 = 150;

pub(super) async fn cloud(plan: &Plan) -> anyhow::Result<CloudProcess> {
    let seed = plan.seed.to_string();
    let (arrival, answer) = (format!("{ARRIVAL_MS}ms"), format!("{ANSWER_MS}ms"));
    let flags = ["--boot", "200ms", "--arrival", &arrival, "--answer", &answer, "--seed", &seed];
    let ignore_tokens = plan.without_tokens.then_some("--ignore-tokens");
    CloudProcess::start(&flags.into_iter().chain(ignore_tokens).map(str::to_owned).collect::<Vec<_>>()).await
}

pub(super) fn server(plan: &Plan, cloud: &CloudProcess) -> anyhow::Result<ServerProcess> {
    let collect = if plan.without_collection { "0s" } else { "4s" };
    let flags = [
        ["--cloud-provider", "simulated"],
        ["--cloud-address", &cloud.address],
        ["--lease-owner", "crashes"],
        ["--lease-duration", "15s"],
        ["--control-batch-idle", "50ms"],
        ["--control-batch-max", "300ms"],
        ["--control-gc-after", collect],
        ["--log-filter", &plan.log],
    ];
    let flags = flags.into_iter().flatten().map(str::to_owned).chain(without_bounds()).collect();
    ServerProcess::start(plan.database_url.as_deref().unwrap_or_default(), flags)
}
