//! A server on an EC2 account that is simulated in its own process.

use crate::serve::{Server, ServerComponents};

/// The account. It checks no credentials.
#[derive(Debug)]
pub struct SimulatedAccount {
    /// Region, such as `us-east-1`.
    pub region: String,
    /// Address of the endpoint of all services.
    pub endpoint: String,
    /// Name of the queue of interruption notices. It is set up if it does not exist.
    pub queue: String,
}

/// Checks that a server on EC2 is in this build, for `asked`, such as an option.
///
/// # Errors
/// The build that has it.
pub fn check(asked: &str) -> anyhow::Result<()> {
    if cfg!(feature = "ec2") { Ok(()) } else { Err(super::not_built(asked, "leave it out")) }
}

/// Sets up the queue with its rules, as `fleetwright ec2 setup` does, and starts a server with `components` on EC2 that
/// receives its notices.
///
/// # Errors
/// A call of the setup that failed, a component that could not start, or the build feature that is missing.
#[cfg(feature = "ec2")]
pub async fn start(components: ServerComponents<()>, account: SimulatedAccount) -> anyhow::Result<Server> {
    use std::sync::Arc;

    use anyhow::Context;
    use cloud_ec2::{Credentials, Ec2Cloud, Settings};
    use store::clock;

    let SimulatedAccount { region, endpoint, queue } = account;
    let credentials = Credentials::new("simulated", "simulated", None, None, "simulated account");
    let cloud = Ec2Cloud::with_credentials(
        Settings { region, endpoint: Some(endpoint), ..Settings::default() },
        credentials,
        clock::now,
    );
    cloud.queue_setup(&queue).apply(|_| {}).await.with_context(|| format!("cannot set up the queue {queue}"))?;
    let mut components = components.with_cloud(Arc::new(cloud));
    components.regions.iter_mut().for_each(|region| region.interruption_queue = Some(queue.clone()));
    super::start_with_queues(components).await
}

/// The error that names the build with EC2.
///
/// # Errors
/// Always.
#[cfg(not(feature = "ec2"))]
pub async fn start(_: ServerComponents<()>, _: SimulatedAccount) -> anyhow::Result<Server> {
    Err(super::not_built("a simulated EC2 account", "use the simulated cloud"))
}
