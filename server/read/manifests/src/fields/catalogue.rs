//! The file of `--catalogue` and of `fleetwright catalogue export`.

use super::table::Table;
use crate::schema::part::{Part, fields, list, map, object, resources, text};

pub(super) fn table() -> Table {
    let region = object(fields! {
        /// The region's name.
        /// Example: eu-west-1
        "name": text(),
        /// Its zones.
        /// Example: [eu-west-1a, eu-west-1b]
        "zones": list(text()),
    });
    let offering = object(fields! {
        /// Where it is offered.
        /// Allowed: a zone of a region above
        /// Example: eu-west-1a
        "zone": text(),
        /// How it is paid for.
        /// Allowed: on-demand, spot, reserved
        /// Example: spot
        "capacityType": text(),
        /// What an hour costs.
        /// Allowed: not negative, at most six decimals
        /// Example: 0.0347
        "priceUsdPerHour": Part::of("number"),
    });
    let machine_type = object(fields! {
        /// The value of node.kubernetes.io/instance-type.
        /// Allowed: unique
        /// Example: m7g.large
        "name": text(),
        /// Labels that nodes of this type have.
        /// Example: {kubernetes.io/arch: arm64, kubernetes.io/os: linux}
        "labels": map(text()),
        /// What the machine has. cpu, memory and pods are what nearly every pod asks for.
        /// Allowed: not negative
        /// Example: {cpu: "2", memory: 8Gi, pods: "29"}
        "capacity": resources(),
        /// Resources that are reserved for the system; the remainder is allocatable.
        /// Default: none
        /// Allowed: not negative
        /// Example: {cpu: 70m, memory: 700Mi}
        "overhead": resources(),
        /// Ways to buy the type.
        "offerings": list(offering),
    });
    let file = object(fields! {
        /// The regions that the catalogue knows.
        "regions": list(region),
        /// The machine types.
        "types": list(machine_type),
    });
    Table {
        kind: "Catalogue",
        short_names: &["catalog", "cat"],
        api_version: "fleetwright.dev/v1".to_owned(),
        meaning: "Machine types and what they cost: replaces the built-in catalogue, so that any cloud or one's own machines can be planned. With a single region, that region is the default.",
        fields: file.documentation(),
    }
}
