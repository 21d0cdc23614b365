//! The file of `--catalogue` and of `fleetwright catalogue export`.

use super::table::{Field, Table, field, object};

pub(super) const TABLE: Table = Table {
    kind: "Catalogue",
    short_names: &["catalog", "cat"],
    api_version: "fleetwright.dev/v1",
    meaning: "Machine types and what they cost: replaces the built-in catalogue, so that any cloud or one's own machines can be planned. With a single region, that region is the default.",
    fields: &[FIELDS],
};

const FIELDS: &[Field] = &[
    object("regions", "[]Object", "The regions that the catalogue knows."),
    field("regions.name", "string", "", "", "The region's name.", "eu-west-1"),
    field("regions.zones", "[]string", "", "", "Its zones.", "[eu-west-1a, eu-west-1b]"),
    object("types", "[]Object", "The machine types."),
    field("types.name", "string", "", "unique", "The value of node.kubernetes.io/instance-type.", "m7g.large"),
    field(
        "types.labels",
        "map[string]string",
        "",
        "",
        "Labels that nodes of this type have.",
        "{kubernetes.io/arch: arm64, kubernetes.io/os: linux}",
    ),
    field(
        "types.capacity",
        "map[string]Quantity",
        "",
        "not negative",
        "What the machine has. cpu, memory and pods are what nearly every pod asks for.",
        "{cpu: \"2\", memory: 8Gi, pods: \"29\"}",
    ),
    field(
        "types.overhead",
        "map[string]Quantity",
        "none",
        "not negative",
        "Resources that are reserved for the system; the remainder is allocatable.",
        "{cpu: 70m, memory: 700Mi}",
    ),
    object("types.offerings", "[]Object", "Ways to buy the type."),
    field("types.offerings.zone", "string", "", "a zone of a region above", "Where it is offered.", "eu-west-1a"),
    field("types.offerings.capacityType", "string", "", "on-demand, spot, reserved", "How it is paid for.", "spot"),
    field(
        "types.offerings.priceUsdPerHour",
        "number",
        "",
        "not negative, at most six decimals",
        "What an hour costs.",
        "0.0347",
    ),
];
