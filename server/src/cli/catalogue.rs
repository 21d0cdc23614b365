//! `fleetwright catalogue`: instance types and prices.

use clap::Subcommand;
use cloud::catalogue::Snapshot;

use super::exit::{Failure, Status};
use super::output;

/// Instance types and prices that plans are based on
#[derive(Debug, Subcommand)]
pub enum CatalogueCommand {
    /// Print the built-in catalogue in the format of `plan --catalogue`
    Export {
        /// Only this region
        #[arg(long)]
        region: Option<String>,
    },
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(command: &CatalogueCommand) -> Result<Status, Failure> {
    let CatalogueCommand::Export { region } = command;
    let mut document = Snapshot::builtin().map_err(Failure::internal)?.export();
    if let Some(region) = region {
        keep_region(&mut document, region)?;
    }
    output::print(|out| {
        serde_json::to_writer(&mut *out, &document)?;
        out.write_all(b"\n")
    })?;
    Ok(Status::Done)
}

/// Removes other regions, their offerings, and instance types without an offering.
fn keep_region(document: &mut serde_json::Value, region: &str) -> Result<(), Failure> {
    let mut zones = Vec::new();
    if let Some(regions) = document.get_mut("regions").and_then(|regions| regions.as_array_mut()) {
        let names: Vec<String> = regions.iter().filter_map(|entry| Some(entry["name"].as_str()?.to_owned())).collect();
        regions.retain(|entry| entry["name"] == region);
        let Some(kept) = regions.first() else {
            return Err(Failure::refused(format!("the catalogue has no region {region}; it has {}", names.join(", "))));
        };
        zones.extend(kept["zones"].as_array().into_iter().flatten().cloned());
    }
    if let Some(types) = document.get_mut("types").and_then(|types| types.as_array_mut()) {
        for machine in types.iter_mut() {
            if let Some(offerings) = machine.get_mut("offerings").and_then(|offerings| offerings.as_array_mut()) {
                offerings.retain(|offering| zones.contains(&offering["zone"]));
            }
        }
        types.retain(|machine| machine["offerings"].as_array().is_some_and(|offerings| !offerings.is_empty()));
    }
    Ok(())
}
