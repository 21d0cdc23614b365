//! The queue of interruption notices of an account and region, for `fleetwright ec2 setup`.

/// The queue to set up or to remove.
#[derive(Debug)]
pub struct QueueRequest {
    /// Region, such as `eu-west-1`.
    pub region: String,
    pub queue: String,
    /// Address of an AWS API in place of AWS's own.
    pub endpoint: Option<String>,
    /// Whether queue and rules are removed.
    pub undo: bool,
    /// Whether the changes are made; otherwise they are only found.
    pub apply: bool,
}

/// Finds the changes, or makes them. Each is passed to `show`: when it was found, or when it was made. Returns how many
/// there are.
///
/// # Errors
/// The call that failed, or the build feature that is missing.
#[cfg(feature = "ec2")]
pub async fn run(request: &QueueRequest, mut show: impl FnMut(String)) -> anyhow::Result<usize> {
    use cloud_ec2::interruption::setup::Change;
    use cloud_ec2::{Ec2Cloud, Settings};
    use store::clock;

    let settings =
        Settings { region: request.region.clone(), endpoint: request.endpoint.clone(), ..Settings::default() };
    let setup = Ec2Cloud::connect(settings, clock::now).await.queue_setup(&request.queue);
    let mut count = 0;
    let shown = |change: &Change| {
        count += 1;
        show(change.to_string());
    };
    match (request.undo, request.apply) {
        (false, false) => setup.pending().await?.iter().for_each(shown),
        (true, false) => setup.removable().await?.iter().for_each(shown),
        (false, true) => setup.apply(shown).await?,
        (true, true) => setup.undo(shown).await?,
    }
    Ok(count)
}

/// The error that names the build with EC2.
///
/// # Errors
/// Always.
#[cfg(not(feature = "ec2"))]
pub async fn run(_: &QueueRequest, _: impl FnMut(String)) -> anyhow::Result<usize> {
    Err(anyhow::anyhow!(
        "this program was built without EC2, and makes no queue; build it with the cargo feature `ec2`"
    ))
}
