//! `fleetwright catalogue`: instance types and prices.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use cloud::catalogue::Snapshot;
use serde::Serialize;
use serde_json::Value;

use super::readable_json;
use crate::clouds::discovery::{self, Refreshed};
use command::exit::{Failure, Status};
use command::output;
use command::rows::{Format, print_rows};
use settings::suggest::nearest;

/// Instance types and prices that plans are based on
#[derive(Debug, Subcommand)]
pub enum CatalogueCommand {
    /// Print the built-in catalogue in the format of `plan --catalogue`
    Export {
        /// Only this region
        #[arg(long)]
        region: Option<String>,
    },
    Regions(RegionsFlags),
    /// Print an instance type with its prices, as `export` has it
    Show {
        /// Name of the type, such as m5.large
        name: String,
        /// Only this region
        #[arg(long)]
        region: Option<String>,
    },
    Refresh(RefreshFlags),
}

/// Read instance types, zones and prices of a region from AWS, in the format of `plan --catalogue`
///
/// Needs credentials that allow ec2:DescribeInstanceTypes, ec2:DescribeInstanceTypeOfferings,
/// ec2:DescribeAvailabilityZones, ec2:DescribeSpotPriceHistory and
/// pricing:GetProducts. Without the last one, on-demand prices are those of the built-in catalogue.
#[derive(Debug, Args)]
pub struct RefreshFlags {
    /// The region, such as eu-west-1
    #[arg(long)]
    region: String,
    /// Write the catalogue to this file, for the setting `cloud.catalogue`, instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Address of an AWS API in place of AWS's own
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
}

/// List the regions with their zones
#[derive(Debug, Args)]
pub struct RegionsFlags {
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(command: &CatalogueCommand) -> Result<Status, Failure> {
    if let CatalogueCommand::Refresh(flags) = command {
        return refresh(flags);
    }
    let mut document = Snapshot::builtin().map_err(Failure::internal)?.export();
    match command {
        CatalogueCommand::Export { region } => {
            keep_region(&mut document, region.as_deref())?;
            print(&document)
        }
        CatalogueCommand::Regions(flags) => print_regions(&document, flags.output),
        CatalogueCommand::Show { name, region } => {
            keep_region(&mut document, region.as_deref())?;
            print(find_type(&document, name)?)
        }
        CatalogueCommand::Refresh(flags) => refresh(flags),
    }
}

fn refresh(flags: &RefreshFlags) -> Result<Status, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    let read = discovery::read(&flags.region, flags.endpoint.as_deref());
    let Refreshed { snapshot, problems } =
        runtime.block_on(read).map_err(|error| Failure::refused(format!("{error:#}")))?;
    problems.iter().for_each(|problem| eprintln!("warning: {problem}"));
    let document = snapshot.export();
    let Some(path) = &flags.out else { return print(&document) };
    write_file(path, &document)?;
    let date =
        snapshot.region(&flags.region).and_then(|region| region.price_date.as_deref()).unwrap_or("an unknown day");
    let (path, region, types) = (path.display(), &flags.region, snapshot.type_names().count());
    eprintln!("wrote {path}: region {region}, number of instance types {types}, on-demand prices of {date}");
    Ok(Status::Done)
}

/// Replaces the file as a whole: a server may read it at any moment.
fn write_file(path: &Path, document: &Value) -> Result<(), Failure> {
    let mut text = Vec::new();
    readable_json::write(document, &mut text).map_err(Failure::internal)?;
    let failed = |why| Failure::refused(format!("cannot write {}: {why}; does the directory exist?", path.display()));
    let beside = path.with_added_extension("new");
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path)).map_err(failed)
}

fn print(value: &Value) -> Result<Status, Failure> {
    output::print(|out| readable_json::write(value, out))?;
    Ok(Status::Done)
}

/// Removes other regions, their offerings and prices, and instance types that are not sold in the
/// region. `None` keeps everything.
fn keep_region(document: &mut Value, region: Option<&str>) -> Result<(), Failure> {
    let Some(region) = region else { return Ok(()) };
    let known = names(&document["regions"]);
    let Some(regions) = document["regions"].as_array_mut() else { return Ok(()) };
    regions.retain(|entry| entry["name"] == region);
    let Some(kept) = regions.first() else { return Err(unknown("region", region, &known)) };
    let zones: Vec<Value> = kept["zones"].as_array().into_iter().flatten().cloned().collect();
    let Some(types) = document["types"].as_array_mut() else { return Ok(()) };
    types.retain_mut(|machine| is_sold(machine, region, &zones));
    Ok(())
}

/// Whether `machine` is sold in `region`, which has `zones`. Removes what it has for other regions.
fn is_sold(machine: &mut Value, region: &str, zones: &[Value]) -> bool {
    if let Some(offerings) = machine["offerings"].as_array_mut() {
        offerings.retain(|offering| zones.contains(&offering["zone"]));
    }
    // Prices of regions whose zones are unknown.
    if let Some(Value::Object(prices)) = machine.get_mut("onDemandUsdPerHour") {
        prices.retain(|name, _| name == region);
    }
    let has_price = machine["onDemandUsdPerHour"].as_object().is_some_and(|prices| !prices.is_empty());
    if let Some(fields) = machine.as_object_mut().filter(|_| !has_price) {
        fields.shift_remove("onDemandUsdPerHour");
    }
    has_price || machine["offerings"].as_array().is_some_and(|offerings| !offerings.is_empty())
}

fn find_type<'d>(document: &'d Value, name: &str) -> Result<&'d Value, Failure> {
    let types = &document["types"];
    let found = types.as_array().into_iter().flatten().find(|entry| entry["name"] == name);
    found.ok_or_else(|| unknown("instance type", name, &names(types)))
}

fn names(entries: &Value) -> Vec<String> {
    let entries = entries.as_array().into_iter().flatten();
    entries.filter_map(|entry| Some(entry["name"].as_str()?.to_owned())).collect()
}

fn unknown(what: &str, name: &str, known: &[String]) -> Failure {
    let remedy = match nearest(name, known.iter().cloned()) {
        Some(near) => format!("did you mean {near}?"),
        None if what == "region" => format!("it has {}", known.join(", ")),
        None => "`fleetwright catalogue export` lists all".to_owned(),
    };
    Failure::refused(format!("the catalogue has no {what} {name}; {remedy}"))
}

/// A region of the catalogue.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RegionRow {
    name: String,
    zones: Vec<String>,
    price_date: Option<String>,
}

fn print_regions(document: &Value, format: Format) -> Result<Status, Failure> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let row = |entry: &Value| RegionRow {
        name: text(&entry["name"]).unwrap_or_default(),
        zones: entry["zones"].as_array().into_iter().flatten().filter_map(text).collect(),
        price_date: text(&entry["priceDate"]),
    };
    let rows: Vec<RegionRow> = document["regions"].as_array().into_iter().flatten().map(row).collect();
    print_rows(&rows, format, ["REGION", "ZONES", "PRICES OF"], |row| {
        let zones = if row.zones.is_empty() { "unknown: pass --zones".to_owned() } else { row.zones.join(",") };
        [row.name.clone(), zones, row.price_date.clone().unwrap_or_default()]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exported() -> Value {
        Snapshot::builtin().expect("the built-in catalogue is valid").export()
    }

    /// The catalogue that `plan --catalogue` reads from what `export` prints.
    fn read_back(document: &Value) -> Snapshot {
        let mut text = Vec::new();
        readable_json::write(document, &mut text).expect("a vector takes everything");
        Snapshot::parse(&text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_export_of_a_region_is_read_back_with_its_types() {
        let whole = exported();
        let (unknown, known): (Vec<&Value>, Vec<&Value>) = whole["regions"]
            .as_array()
            .into_iter()
            .flatten()
            .partition(|entry| entry["zones"] == Value::Array(Vec::new()));
        assert!(!unknown.is_empty(), "no region without known zones is left to test");
        for entry in unknown.into_iter().take(1).chain(known.into_iter().step_by(12)) {
            let region = entry["name"].as_str().expect("a name").to_owned();
            let mut document = whole.clone();
            keep_region(&mut document, Some(&region)).expect("a region of the catalogue");
            assert!(!names(&document["types"]).is_empty(), "{region} sells nothing");
            let again = read_back(&document).export();
            assert_eq!(names(&again["regions"]), [region.as_str()]);
            assert_eq!(names(&again["types"]), names(&document["types"]), "{region}");
        }
    }

    #[test]
    fn names_that_the_catalogue_lacks_are_refused_with_the_nearest_one() {
        let message = |failure: Failure| failure.messages.join("\n");
        let refused = |region: &str| message(keep_region(&mut exported(), Some(region)).expect_err("no such region"));
        assert_eq!(refused("useast1"), "the catalogue has no region useast1; did you mean us-east-1?");
        assert!(
            refused("foo").starts_with("the catalogue has no region foo; it has af-south-1, "),
            "{}",
            refused("foo")
        );
        let document = exported();
        let refused = |name: &str| message(find_type(&document, name).expect_err("no such type"));
        assert_eq!(refused("m5.lrge"), "the catalogue has no instance type m5.lrge; did you mean m5.large?");
    }

    #[test]
    fn a_catalogue_file_is_replaced_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("fleetwright-catalogue-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("catalogue.json");
        std::fs::write(&path, "an older one").expect("a file");
        let mut document = exported();
        keep_region(&mut document, Some("eu-west-1")).expect("a region of the catalogue");
        write_file(&path, &document).expect("a folder that can be written");
        let read = Snapshot::parse(&std::fs::read(&path).expect("a file")).expect("a catalogue");
        assert_eq!(read.region("eu-west-1").and_then(|region| region.price_date.as_deref()), Some("2026-05-12"));
        let names: Vec<_> =
            std::fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["catalogue.json"]);
        std::fs::remove_dir_all(&folder).expect("the test's own folder");
        let failure = write_file(&path, &document).expect_err("the folder is gone");
        assert!(failure.messages[0].ends_with("does the directory exist?"), "{:?}", failure.messages);
    }

    #[cfg(not(feature = "ec2"))]
    #[test]
    fn without_ec2_the_build_that_reads_prices_is_named() {
        let flags = RefreshFlags { region: "eu-west-1".to_owned(), out: None, endpoint: None };
        let failure = refresh(&flags).expect_err("this build has no SDK");
        let remedy = "build it with the cargo feature `ec2`";
        assert!(failure.messages[0].contains(remedy), "{:?}", failure.messages);
    }
}
