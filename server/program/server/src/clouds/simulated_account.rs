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
    if cfg!(feature = "ec2") { Ok(()) } else { Err(super::not_built(asked)) }
}

/// The account as the server calls it.
#[cfg(feature = "ec2")]
fn cloud(account: &SimulatedAccount) -> cloud_ec2::Ec2Cloud {
    use cloud_ec2::{Credentials, Ec2Cloud, Settings};
    use store::clock;

    let credentials = Credentials::new("simulated", "simulated", None, None, "simulated account");
    let (region, endpoint) = (account.region.clone(), Some(account.endpoint.clone()));
    Ec2Cloud::with_credentials(Settings { region, endpoint, ..Settings::default() }, credentials, clock::now)
}

/// Sets up the queue with its rules, as `fleetwright ec2 setup` does.
///
/// # Errors
/// A call that failed, or the build feature that is missing.
#[cfg(feature = "ec2")]
pub async fn set_up(account: &SimulatedAccount) -> anyhow::Result<()> {
    use anyhow::Context;

    let queue = &account.queue;
    cloud(account).queue_setup(queue).apply(|_| {}).await.with_context(|| format!("cannot set up the queue {queue}"))
}

/// Sets up the queue and starts a server with `components` on EC2 that receives its notices.
///
/// # Errors
/// A call of the setup that failed, a component that could not start, or the build feature that is missing.
#[cfg(feature = "ec2")]
pub async fn start(mut components: ServerComponents, account: SimulatedAccount) -> anyhow::Result<Server> {
    set_up(&account).await?;
    let cloud = std::sync::Arc::new(cloud(&account));
    for region in &mut components.regions {
        region.cloud = cloud.clone();
        region.interruption_queue = Some(account.queue.clone());
    }
    super::start_with_queues(components, &[cloud]).await
}

/// The error that names the build with EC2.
///
/// # Errors
/// Always.
#[cfg(not(feature = "ec2"))]
pub async fn set_up(_: &SimulatedAccount) -> anyhow::Result<()> {
    Err(super::not_built("a simulated EC2 account"))
}

/// The error that names the build with EC2.
///
/// # Errors
/// Always.
#[cfg(not(feature = "ec2"))]
pub async fn start(_: ServerComponents, _: SimulatedAccount) -> anyhow::Result<Server> {
    Err(super::not_built("a simulated EC2 account"))
}
