//! Disks, network interfaces, connection tracking.

use std::collections::BTreeSet;

use model::Text;
use model::node_class::{AmiFamily, BlockDevice, ConnectionTracking, EbsVolume, NetworkInterface};
use model::resources::EPHEMERAL_STORAGE;

use crate::Cursor;
use crate::schema::part::{Part, boolean, fields, integer, list, object, one_of_table, text};

const VOLUME_TYPES: [(&str, ()); 7] =
    [("standard", ()), ("io1", ()), ("io2", ()), ("gp2", ()), ("sc1", ()), ("st1", ()), ("gp3", ())];
const INTERFACE_TYPES: [(&str, bool); 2] = [("interface", false), ("efa-only", true)];
const MOST_DISKS: usize = 50;
const MOST_INTERFACES: usize = 150;
/// Assumed size in bytes of a disk of unknown size (Karpenter AWS: ephemeral storage).
const UNKNOWN_DISK: i64 = 20 << 30;

/// The schema of `blockDeviceMappings`.
pub(super) fn disks_schema() -> Part {
    let disk = object(fields! {
        /// The device.
        /// Example: /dev/xvda
        "deviceName": text(),
        /// Whether pods' files are stored on this disk; its size is then the node's ephemeral storage.
        /// Default: false
        /// Example: true
        "rootVolume": boolean(),
        /// The volume; snapshotID or volumeSize is needed.
        "ebs": volume_schema(),
    });
    list(disk).max_items(MOST_DISKS).rule(
        "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
        "more than one disk has rootVolume: true; at most one may",
    )
}

fn volume_schema() -> Part {
    // At most 59000Gi, 64000G, 58Ti or 64T, in whole numbers without leading zeros.
    const SIZE: &str = "^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$";
    object(fields! {
        /// Whether the volume goes with the machine.
        /// Default: EC2's
        /// Example: true
        "deleteOnTermination": boolean(),
        /// Whether it is encrypted.
        /// Default: EC2's
        /// Example: true
        "encrypted": boolean(),
        /// Operations per second.
        /// Default: EC2's
        /// Allowed: by volumeType
        /// Example: 3000
        "iops": integer("int64"),
        /// The key that it is encrypted with.
        /// Default: the account's key
        /// Example: arn:aws:kms:eu-west-1:123456789012:key/1234
        "kmsKeyID": text(),
        /// The snapshot that it starts from.
        /// Example: snap-0123456789abcdef0
        "snapshotID": text(),
        /// MiB per second.
        /// Default: EC2's
        /// Allowed: gp3
        /// Example: 125
        "throughput": integer("int64"),
        /// MiB per second at which the snapshot is loaded.
        /// Default: EC2's
        /// Allowed: 100 to 300; needs snapshotID
        /// Example: 200
        "volumeInitializationRate": integer("int32").between(100, 300),
        /// Its size.
        /// Default: the snapshot's
        /// Allowed: whole Gi to 59000, G to 64000, Ti to 58, T to 64
        /// Example: 100Gi
        "volumeSize": text().pattern(SIZE).type_name("Quantity"),
        /// Its type.
        /// Default: EC2's
        /// Example: gp3
        "volumeType": one_of_table(&VOLUME_TYPES),
    })
    .rule("has(self.snapshotID) || has(self.volumeSize)", "snapshotID, volumeSize or both are needed")
    .rule(
        "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
        "volumeInitializationRate needs a snapshotID",
    )
}

pub(super) fn network_interfaces_schema() -> Part {
    let interface = object(fields! {
        /// The card.
        /// Example: 0
        "networkCardIndex": integer("int32").at_least(0),
        /// The device on the card.
        /// Example: 0
        "deviceIndex": integer("int32").at_least(0),
        /// What it is for.
        /// Example: interface
        "interfaceType": one_of_table(&INTERFACE_TYPES),
    });
    list(interface.required(&["deviceIndex", "interfaceType", "networkCardIndex"]))
        .max_items(MOST_INTERFACES)
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

/// The schema of `connectionTracking`, in seconds.
pub(super) fn connection_tracking_schema() -> Part {
    object(fields! {
        /// Idle TCP connections.
        /// Default: EC2's
        /// Allowed: 60 to 432000 seconds
        /// Example: 3600
        "tcpEstablishedTimeout": integer("int32").between(60, 432_000),
        /// UDP flows with several packets.
        /// Default: EC2's
        /// Allowed: 60 to 180 seconds
        /// Example: 120
        "udpStreamTimeout": integer("int32").between(60, 180),
        /// UDP flows in one direction or with one request.
        /// Default: EC2's
        /// Allowed: 30 to 60 seconds
        /// Example: 30
        "udpTimeout": integer("int32").between(30, 60),
    })
    .rule(
        "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
        "at least one of tcpEstablishedTimeout, udpStreamTimeout and udpTimeout is needed",
    )
}

/// What `blockDeviceMappings` gives a machine; sizes are in bytes.
pub(super) struct Storage {
    /// The mappings as written.
    pub(super) devices: Vec<BlockDevice>,
    /// The disk with the pods' ephemeral storage; `None` for the default of the family.
    pub(super) ephemeral: Option<i64>,
    /// The sum of all `volumeSize`; `None` when none is given.
    pub(super) volumes: Option<i64>,
}

/// Reads and validates `blockDeviceMappings`.
pub(super) fn storage(spec: &Cursor<'_>, family: AmiFamily) -> Storage {
    let at = spec.at("blockDeviceMappings");
    let devices: Vec<BlockDevice> = at.list().iter().map(read_disk).collect();
    if devices.len() > MOST_DISKS {
        at.error(format!("{} disks, allowed: at most {MOST_DISKS}", devices.len()));
    }
    if devices.iter().filter(|disk| disk.root_volume).count() > 1 {
        at.error("more than one disk has rootVolume: true, allowed: at most one");
    }
    let volumes = devices.iter().filter_map(size).reduce(i64::saturating_add);
    Storage { ephemeral: ephemeral_storage(&devices, family), volumes, devices }
}

/// Size in bytes of the disk with the pods' ephemeral storage: the one marked `rootVolume`; else
/// the last one for Custom images; else the one with the device name of the family. `None` when the
/// default of the family applies.
fn ephemeral_storage(disks: &[BlockDevice], family: AmiFamily) -> Option<i64> {
    if let Some(size) = disks.iter().find(|disk| disk.root_volume).and_then(size) {
        return Some(size);
    }
    match family {
        AmiFamily::Custom => disks.last().map(|disk| size(disk).unwrap_or(UNKNOWN_DISK)),
        _ => disks.iter().find(|disk| disk.device_name.as_deref() == Some(pod_device(family))).and_then(size),
    }
}

fn size(disk: &BlockDevice) -> Option<i64> {
    disk.ebs.as_ref()?.size
}

/// The device name of the disk with the pods' ephemeral storage.
fn pod_device(family: AmiFamily) -> &'static str {
    match family {
        AmiFamily::Bottlerocket => "/dev/xvdb",
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => "/dev/sda1",
        AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Custom => "/dev/xvda",
    }
}

fn read_disk(at: &Cursor<'_>) -> BlockDevice {
    let ebs = at.at("ebs");
    BlockDevice {
        device_name: at.at("deviceName").text(),
        root_volume: at.at("rootVolume").bool().unwrap_or(false),
        ebs: ebs.exists().then(|| read_volume(&ebs)),
    }
}

fn read_volume(ebs: &Cursor<'_>) -> EbsVolume {
    let (snapshot, size_at, rate) = (ebs.at("snapshotID"), ebs.at("volumeSize"), ebs.at("volumeInitializationRate"));
    if !snapshot.exists() && !size_at.exists() {
        ebs.error("allowed: snapshotID, volumeSize or both; found neither");
    }
    let initialization_rate = rate.int_within(100, 300);
    if initialization_rate.is_some() && !snapshot.exists() {
        rate.error("volumeInitializationRate needs a snapshotID");
    }
    let type_at = ebs.at("volumeType");
    let _ = type_at.one_of(&VOLUME_TYPES);
    EbsVolume {
        delete_on_termination: ebs.at("deleteOnTermination").bool(),
        encrypted: ebs.at("encrypted").bool(),
        iops: ebs.at("iops").int(),
        kms_key_id: ebs.at("kmsKeyID").text(),
        snapshot_id: snapshot.text(),
        throughput: ebs.at("throughput").int(),
        initialization_rate,
        size: read_size(&size_at),
        volume_type: type_at.raw().and_then(|kind| kind.as_str()).map(Text::from),
    }
}

/// Size of a volume: a whole number of at most 59000Gi, 64000G, 58Ti or 64T.
fn read_size(at: &Cursor<'_>) -> Option<i64> {
    const UNITS: [(&str, i64); 4] = [("Gi", 59_000), ("Ti", 58), ("G", 64_000), ("T", 64)];
    let text = at.str()?;
    let fits = UNITS.iter().find_map(|(unit, most)| {
        let number = text.strip_suffix(unit).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        number.and_then(|digits| digits.parse::<i64>().ok()).filter(|number| (1..=*most).contains(number))
    });
    match fits {
        Some(_) => at.quantity(EPHEMERAL_STORAGE),
        None => at.unexpected(text, "a whole number with Gi (to 59000), G (to 64000), Ti (to 58) or T (to 64)"),
    }
}

/// `spec.networkInterfaces`.
pub(super) fn network_interfaces(at: &Cursor<'_>) -> Vec<NetworkInterface> {
    let entries = at.list();
    if entries.len() > MOST_INTERFACES {
        at.error(format!("{} interfaces, allowed: at most {MOST_INTERFACES}", entries.len()));
    }
    let interfaces: Vec<NetworkInterface> = entries.iter().filter_map(read_interface).collect();
    if at.exists() && interfaces.len() == entries.len() {
        check_interfaces(at, &interfaces);
    }
    interfaces
}

fn read_interface(at: &Cursor<'_>) -> Option<NetworkInterface> {
    let index =
        |key| at.at(key).required().int_within(0, i64::from(i32::MAX)).and_then(|index| u32::try_from(index).ok());
    let (card, device) = (index("networkCardIndex"), index("deviceIndex"));
    let efa_only = at.at("interfaceType").required().one_of(&INTERFACE_TYPES);
    Some(NetworkInterface { card: card?, device: device?, efa_only: efa_only? })
}

fn check_interfaces(at: &Cursor<'_>, interfaces: &[NetworkInterface]) {
    if !interfaces.contains(&NetworkInterface { card: 0, device: 0, efa_only: false }) {
        at.error("one interface must have networkCardIndex 0, deviceIndex 0 and interfaceType interface");
    }
    let (mut places, mut efa_cards) = (BTreeSet::new(), BTreeSet::new());
    for interface in interfaces {
        if !places.insert((interface.card, interface.device)) {
            at.error(format!("card {}, device {} occurs twice", interface.card, interface.device));
        }
        if interface.efa_only && !efa_cards.insert(interface.card) {
            at.error(format!("card {} has more than one efa-only interface", interface.card));
        }
    }
}

/// `spec.connectionTracking`.
pub(super) fn connection_tracking(at: &Cursor<'_>) -> ConnectionTracking {
    let seconds = |key, least, most| at.at(key).int_within(least, most).and_then(|value| i32::try_from(value).ok());
    let keys = ["tcpEstablishedTimeout", "udpStreamTimeout", "udpTimeout"];
    if at.exists() && !keys.iter().any(|key| at.at(key).exists()) {
        at.error("at least one of tcpEstablishedTimeout, udpStreamTimeout and udpTimeout is needed");
    }
    ConnectionTracking {
        tcp_established: seconds("tcpEstablishedTimeout", 60, 432_000),
        udp_stream: seconds("udpStreamTimeout", 60, 180),
        udp: seconds("udpTimeout", 30, 60),
    }
}
