//! Instance types and prices of a region, read from AWS.

use cloud::catalogue::Snapshot;

#[derive(Debug)]
pub struct Refreshed {
    /// Types, zones and prices.
    pub snapshot: Snapshot,
    /// What is incomplete: one sentence each.
    pub problems: Vec<String>,
}

/// Reads a region with the default credential chain. `endpoint` replaces the address of AWS.
///
/// # Errors
/// A call for types, zones or offerings that failed, or the build feature that is missing.
#[cfg(feature = "ec2")]
pub async fn read(region: &str, endpoint: Option<&str>) -> anyhow::Result<Refreshed> {
    use anyhow::Context;
    use cloud::catalogue::RegionPrices;
    use cloud_ec2::{Ec2Cloud, Settings, Supplement};
    use store::clock;

    let builtin = Snapshot::builtin().context("the built-in catalogue is damaged")?;
    let cloud = Ec2Cloud::connect(
        Settings { region: region.to_owned(), endpoint: endpoint.map(str::to_owned), ..Settings::default() },
        clock::now,
    )
    .await;
    let read = cloud.discover(Supplement { prices: builtin, hardware: builtin }).await;
    let read = read.with_context(|| format!("the instance types of {region} could not be read"))?;
    let mut problems: Vec<String> = read.left_out.iter().map(ToString::to_string).collect();
    let snapshot = match cloud.on_demand_prices().await {
        Ok(found) => {
            problems.extend(found.left_out.iter().map(ToString::to_string));
            let date = Some(day(clock::now()).into());
            read.snapshot.with_prices(region, &RegionPrices { on_demand: found.prices, spot: None, date })
        }
        Err(error) => {
            problems.insert(0, error);
            read.snapshot
        }
    };
    Ok(Refreshed { snapshot, problems })
}

/// The day of a point in time, in UTC, such as `2026-05-12`.
#[cfg(feature = "ec2")]
fn day(at: model::Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default().strftime("%F").to_string()
}

/// The error that names the build with EC2.
///
/// # Errors
/// Always.
#[cfg(not(feature = "ec2"))]
pub async fn read(_: &str, _: Option<&str>) -> anyhow::Result<Refreshed> {
    Err(anyhow::anyhow!(
        "this program was built without EC2, and reads no prices from AWS; build it with the cargo feature `ec2`"
    ))
}
