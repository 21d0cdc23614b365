//! Writes a catalogue file.

use model::labels::{INSTANCE_TYPE, OS};
use model::node_class::NodeClassSettings;
use model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use model::{Labels, Offering, Resources, Text, quantity};
use serde_json::{Map, Value, json};

use super::super::build_notes::BuildNotes;
use super::super::capacity;
use super::super::offerings::OfferingBuilder;
use super::super::price::as_number;
use super::super::region_options::RegionOptions;
use super::super::snapshot::{Hardware, Region, Snapshot, TypeEntry};
use super::{API_VERSION, KIND};

impl Snapshot {
    /// The catalogue as a file that [`Snapshot::parse`] reads: prices of every region with known
    /// zones, capacity and overhead as the default NodeClass has them.
    #[must_use]
    pub fn export(&self) -> Value {
        let settings = NodeClassSettings::default();
        let markets: Vec<RegionOptions<'_>> =
            self.regions.iter().map(|region| RegionOptions::new(&region.name)).collect();
        let known = markets.iter().filter(|region_options| !self.zones(region_options.region).is_empty());
        let offering_builders: Vec<OfferingBuilder<'_>> = known
            .map(|region_options| OfferingBuilder::new(self, region_options, &settings, &mut BuildNotes::default()))
            .collect();
        let types: Vec<Value> = self.types.iter().map(|entry| write_type(self, entry, &offering_builders)).collect();
        let regions: Vec<Value> = self.regions.iter().map(write_region).collect();
        json!({"apiVersion": API_VERSION, "kind": KIND, "regions": regions, "types": types})
    }
}

fn write_region(region: &Region) -> Value {
    let mut written = Map::new();
    written.insert("name".into(), json!(&*region.name));
    written.insert("zones".into(), region.zones.iter().map(|zone| json!(&***zone)).collect());
    if let Some(share) = region.spot_per_mille {
        written.insert("spotRatio".into(), json!(share as f64 / 1000.0));
    }
    if let Some(date) = &region.price_date {
        written.insert("priceDate".into(), json!(&**date));
    }
    Value::Object(written)
}

fn write_type(snapshot: &Snapshot, entry: &TypeEntry, offering_builders: &[OfferingBuilder<'_>]) -> Value {
    let mut written = Map::new();
    written.insert("name".into(), json!(&**entry.name));
    written.insert("labels".into(), write_labels(snapshot, entry));
    write_capacity(entry, &mut written);
    let prices = hidden_prices(snapshot, entry);
    if !prices.is_empty() {
        written.insert("onDemandUsdPerHour".into(), Value::Object(prices));
    }
    let offering_of = offering_builders
        .iter()
        .flat_map(|offering_builder| offering_builder.offerings(entry, true, &mut BuildNotes::default()));
    written.insert("offerings".into(), offering_of.map(|offering| write_offering(&offering)).collect());
    Value::Object(written)
}

fn write_labels(snapshot: &Snapshot, entry: &TypeEntry) -> Value {
    let own = snapshot.columns.labels(&entry.labels);
    let mut labels: Labels = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    labels.insert(INSTANCE_TYPE.into(), entry.name.as_text().clone());
    labels.entry(OS.into()).or_insert_with(|| "linux".into());
    labels.iter().map(|(key, value)| (key.to_string(), json!(&**value))).collect::<Map<_, _>>().into()
}

/// EC2 types are written as the default NodeClass runs them.
fn write_capacity(entry: &TypeEntry, written: &mut Map<String, Value>) {
    let (capacity, overhead) = match &entry.hardware {
        Hardware::Explicit { capacity, overhead } => (capacity.clone(), overhead.clone()),
        Hardware::Ec2(_) => {
            let (region_options, settings) = (RegionOptions::new(""), NodeClassSettings::default());
            let allocatable = capacity::allocatable(
                &entry.hardware,
                &entry.name,
                &region_options,
                &settings,
                &mut BuildNotes::default(),
            );
            let kept = |name: &'static str| (name, allocatable.capacity.get(name) - allocatable.allocatable.get(name));
            let overhead = [CPU, EPHEMERAL_STORAGE, MEMORY].map(kept).into_iter().collect();
            let mut capacity = allocatable.allocatable;
            capacity.raise_to(&allocatable.capacity);
            (capacity, Some(overhead))
        }
    };
    written.insert("capacity".into(), amounts(&capacity));
    if let Some(overhead) = overhead {
        written.insert("overhead".into(), amounts(&overhead));
    }
}

fn amounts(resources: &Resources) -> Value {
    let amount = |(name, amount): (&Text, i64)| (name.to_string(), json!(quantity::render(name, amount)));
    resources.iter().map(amount).collect::<Map<_, _>>().into()
}

/// Regional prices without an offering.
fn hidden_prices(snapshot: &Snapshot, entry: &TypeEntry) -> Map<String, Value> {
    let shown = |region: usize| entry.zone_offerings.iter().any(|sale| sale.region == region);
    let hidden = entry.regional.iter().filter(|(region, _)| !shown(*region));
    hidden.map(|(region, quote)| (snapshot.regions[*region].name.to_string(), json!(as_number(quote.price)))).collect()
}

fn write_offering(offering: &Offering) -> Value {
    let mut written = Map::new();
    written.insert("zone".into(), json!(&**offering.zone));
    written.insert("capacityType".into(), json!(offering.capacity_type.as_str()));
    if offering.available {
        written.insert("priceUsdPerHour".into(), json!(as_number(offering.price)));
    }
    if offering.estimated {
        written.insert("estimated".into(), json!(true));
    }
    Value::Object(written)
}
