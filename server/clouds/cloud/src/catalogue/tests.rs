//! The catalogue against hand-computed values.

mod discovered;
mod estimates;
mod file;
mod label_cases;
mod nodeclass;
mod overlays;
mod reprice;
mod vectors;

use model::node_class::NodeClassSettings;
use model::{CapacityType, InstanceType, Offering, Requirement, Requirements, Zone};

use super::{Built, RegionOptions, Snapshot, build};

const MIB: i64 = 1 << 20;

fn builtin() -> &'static Snapshot {
    Snapshot::builtin().unwrap()
}

fn build_us_east_1(settings: &NodeClassSettings) -> Built {
    build(builtin(), &RegionOptions::new("us-east-1"), settings)
}

fn find<'b>(built: &'b Built, name: &str) -> &'b InstanceType {
    built.catalogue.types.iter().find(|machine| machine.name.as_ref() == name).unwrap()
}

fn offering_of<'m>(machine: &'m InstanceType, zone: &str, capacity_type: CapacityType) -> &'m Offering {
    let wanted = |o: &&Offering| o.zone.as_ref() == zone && o.capacity_type == capacity_type;
    machine.offerings.iter().find(wanted).unwrap()
}

fn is_available(machine: &InstanceType) -> bool {
    machine.offerings.iter().any(|offering| offering.available)
}

/// The label's requirement as text, without its key: `In [x]`, `DoesNotExist`; `None` when
/// undefined.
fn label(machine: &InstanceType, key: &str) -> Option<String> {
    let requirement = machine.labels.get(key)?;
    Some(requirement.to_string().trim_start_matches(key).trim().to_owned())
}

fn requirements(list: impl IntoIterator<Item = Requirement>) -> Requirements {
    list.into_iter().collect()
}

fn zones(names: &[&str]) -> Vec<Zone> {
    names.iter().map(|name| Zone::from(*name)).collect()
}
