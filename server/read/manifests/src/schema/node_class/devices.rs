//! Disks, network interfaces, connection tracking, metadata service.

use serde_json::json;

use crate::schema::part::{Part, boolean, integer, list, object, one_of, text};

/// `blockDeviceMappings`.
pub(super) fn disks() -> Part {
    let disk = object([("deviceName", text()), ("ebs", volume()), ("rootVolume", boolean())]);
    list(disk).max_items(50).rule(
        "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
        "more than one disk has rootVolume: true; at most one may",
    )
}

fn volume() -> Part {
    // At most 59000Gi, 64000G, 58Ti or 64T, in whole numbers without leading zeros.
    const SIZE: &str = "^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$";
    const TYPES: [&str; 7] = ["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"];
    object([
        ("deleteOnTermination", boolean()),
        ("encrypted", boolean()),
        ("iops", integer("int64")),
        ("kmsKeyID", text()),
        ("snapshotID", text()),
        ("throughput", integer("int64")),
        ("volumeInitializationRate", integer("int32").between(100, 300)),
        ("volumeSize", text().pattern(SIZE)),
        ("volumeType", one_of(&TYPES)),
    ])
    .rule("has(self.snapshotID) || has(self.volumeSize)", "snapshotID, volumeSize or both are needed")
    .rule(
        "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
        "volumeInitializationRate needs a snapshotID",
    )
}

/// `networkInterfaces`.
pub(super) fn network_interfaces() -> Part {
    let interface = object([
        ("deviceIndex", integer("int32").at_least(0)),
        ("interfaceType", one_of(&["interface", "efa-only"])),
        ("networkCardIndex", integer("int32").at_least(0)),
    ]);
    list(interface.required(&["deviceIndex", "interfaceType", "networkCardIndex"]))
        .max_items(150)
        .rule(
            "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",
            "one interface must have networkCardIndex 0, deviceIndex 0 and interfaceType interface",
        )
        .rule(
            "self.all(x, self.exists_one(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex))",
            "a pair of networkCardIndex and deviceIndex occurs twice",
        )
        .rule(
            "self.all(x, x.interfaceType != 'efa-only' || self.exists_one(y, x.networkCardIndex == y.networkCardIndex && y.interfaceType == 'efa-only'))",
            "a network card has more than one efa-only interface",
        )
}

/// `connectionTracking`, in seconds.
pub(super) fn connection_tracking() -> Part {
    object([
        ("tcpEstablishedTimeout", integer("int32").between(60, 432_000)),
        ("udpStreamTimeout", integer("int32").between(60, 180)),
        ("udpTimeout", integer("int32").between(30, 60)),
    ])
    .rule(
        "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
        "at least one of tcpEstablishedTimeout, udpStreamTimeout and udpTimeout is needed",
    )
}

/// `metadataOptions`.
pub(super) fn metadata_options() -> Part {
    let defaults = json!({
        "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required",
    });
    let switch = |default: &str| one_of(&["enabled", "disabled"]).default(json!(default));
    object([
        ("httpEndpoint", switch("enabled")),
        ("httpProtocolIPv6", switch("disabled")),
        ("httpPutResponseHopLimit", integer("int64").between(1, 64).default(json!(1))),
        ("httpTokens", one_of(&["required", "optional"]).default(json!("required"))),
    ])
    .default(defaults)
}
