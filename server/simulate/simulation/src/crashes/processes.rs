//! Starts the processes: a cloud with slow calls, so that crash points are wide, and a server
//! without guardrail limits.

use super::plan::Plan;
use crate::cloud_interface::CloudInterface;
use serde_json::{Value, json};

use crate::processes::{CloudProcess, ServerProcess};

/// Maximum delay of a call and of its answer, in milliseconds, as under a busy EC2.
pub(super) const ARRIVAL_MS: i64 = 150;
const ANSWER_MS: i64 = 150;

pub(super) async fn cloud(plan: &Plan) -> anyhow::Result<CloudProcess> {
    let seed = plan.options.seed.to_string();
    let (arrival, answer) = (format!("{ARRIVAL_MS}ms"), format!("{ANSWER_MS}ms"));
    let flags = ["--boot", "200ms", "--arrival", &arrival, "--answer", &answer, "--seed", &seed];
    let ignore_tokens = plan.without_tokens.then_some("--ignore-tokens");
    let faults = ec2_faults().to_string();
    let ec2 = ["--ec2-listen", "127.0.0.1:0", "--ec2-faults", &faults];
    let ec2 = ec2.into_iter().filter(|_| plan.cloud == CloudInterface::Ec2);
    let flags = flags.into_iter().chain(ignore_tokens).chain(ec2).map(str::to_owned).collect::<Vec<_>>();
    CloudProcess::start(&flags).await
}

/// Faults of EC2's interface beside those of the cloud: slow launches, lost calls and answers, failing listings, and
/// instances that listings do not show at once.
fn ec2_faults() -> Value {
    json!({
        "lag": { "instancesMs": 500 },
        "rules": [
            { "action": "DescribeInstances", "percent": 10, "effect": { "kind": "error", "code": "RequestLimitExceeded" } },
            { "action": "CreateFleet", "percent": 2, "effect": { "kind": "cutAfter" } },
            { "action": "CreateFleet", "percent": 1, "effect": { "kind": "cutBefore" } },
            { "action": "CreateLaunchTemplate", "percent": 5, "effect": { "kind": "cutAfter" } },
            { "action": "CreateFleet", "effect": {
                "kind": "delay", "beforeMs": [0, ARRIVAL_MS], "afterMs": [0, ANSWER_MS],
            } },
        ],
    })
}

pub(super) fn server(plan: &Plan, database_url: &str, cloud: &CloudProcess) -> anyhow::Result<ServerProcess> {
    let collect = if plan.without_collection { "0s" } else { "4s" };
    let cloud = match &cloud.ec2 {
        Some(endpoint) => [["--cloud", "ec2"], ["--cloud-endpoint", endpoint]],
        None => [["--cloud", "simulated"], ["--cloud-address", &cloud.address]],
    };
    let flags = [
        cloud[0],
        cloud[1],
        // The account has no rate limits, and kills wait for launches.
        ["--cloud-api-limit-percent", "10000"],
        ["--lease-owner", "crashes"],
        ["--lease-duration", "15s"],
        ["--control-batch-idle", "50ms"],
        ["--control-batch-max", "300ms"],
        ["--control-gc-after", collect],
    ];
    ServerProcess::start(database_url, &plan.options.log, &flags)
}
