//! How the processes are started: a cloud with wide windows, and a server that nothing holds back.

use super::Plan;
use crate::processes::{Cloud, Server, without_bounds};

/// From sending a call to its taking effect, and back, at most, in milliseconds: wide windows, as a busy EC2 has them.
pub(super) const ARRIVAL_MS: i64 = 150;
const ANSWER_MS: i64 = 150;

pub(super) async fn cloud(plan: &Plan) -> anyhow::Result<Cloud> {
    let seed = plan.seed.to_string();
    let (arrival, answer) = (format!("{ARRIVAL_MS}ms"), format!("{ANSWER_MS}ms"));
    let flags = ["--boot", "200ms", "--arrival", &arrival, "--answer", &answer, "--seed", &seed];
    let deaf = plan.without_tokens.then_some("--ignore-tokens");
    Cloud::start(&flags.into_iter().chain(deaf).map(str::to_owned).collect::<Vec<_>>()).await
}

pub(super) fn server(plan: &Plan, cloud: &Cloud) -> anyhow::Result<Server> {
    let collect = if plan.without_collection { "0s" } else { "4s" };
    let flags = [
        ["--cloud-provider", "simulated"],
        ["--cloud-address", &cloud.address],
        ["--lease-owner", "crashes"],
        ["--lease-duration", "15s"],
        ["--control-batch-idle", "50ms"],
        ["--control-batch-max", "300ms"],
        ["--control-collect-after", collect],
        ["--log-filter", &plan.log],
    ];
    let flags = flags.into_iter().flatten().map(str::to_owned).chain(without_bounds()).collect();
    Server::start(plan.database_url.as_deref().unwrap_or_default(), flags)
}
