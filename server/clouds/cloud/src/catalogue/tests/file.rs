//! The catalogue as a file.

use model::node_class::{KubeletSettings, NodeClassSettings};
use model::resources::PODS;
use serde_json::{Value, json};

use super::super::{CatalogueError, RegionOptions, Snapshot, build};
use super::{MIB, builtin, find, zones};

/// The smallest file with every field.
fn small() -> Value {
    json!({
        "apiVersion": "fleetwright.dev/v1", "kind": "Catalogue",
        "regions": [{"name": "rack", "zones": ["rack-1", "rack-2"]}],
        "types": [{
            "name": "box",
            "labels": {"example.com/disk": "fast"},
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": 50, "ephemeral-storage": "100Gi"},
            "overhead": {"cpu": "500m", "memory": "2Gi"},
            "offerings": [{"zone": "rack-1", "capacityType": "on-demand", "priceUsdPerHour": 0.25}],
        }],
    })
}

fn read(file: &Value) -> Result<Snapshot, CatalogueError> {
    Snapshot::parse(file.to_string().as_bytes())
}

/// The message for the small file with `pointer` set to `value`.
fn refusal(pointer: &str, value: Value) -> String {
    let mut file = small();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match file.pointer_mut(parent).unwrap() {
        Value::Object(fields) => {
            fields.insert(key.to_owned(), value);
        }
        Value::Array(list) => list.push(value),
        other => panic!("{other} has no fields"),
    }
    read(&file).unwrap_err().to_string()
}

#[test]
fn an_export_reads_back_as_the_same_catalogue() {
    let exported = builtin().export();
    let again = Snapshot::parse(&serde_json::to_vec(&exported).unwrap()).unwrap();
    let zones = zones(&["za", "zb"]);
    for region in ["us-east-1", "us-west-2", "eu-west-1", "us-gov-west-1", "ap-south-1"] {
        let region_options = RegionOptions { extra_zones: &zones, ..RegionOptions::new(region) };
        let settings = NodeClassSettings::default();
        let (mut before, after) =
            (build(builtin(), &region_options, &settings), build(&again, &region_options, &settings));
        // A file has no baselines: burstable types of a file cost what it states.
        before.catalogue.types.iter_mut().for_each(|kind| kind.burstable = None);
        for (one, other) in before.catalogue.types.iter().zip(&after.catalogue.types) {
            assert_eq!(one, other, "{region}");
        }
        assert_eq!(before, after, "{region}");
    }
    assert_eq!(again.export(), exported);
}

#[test]
fn an_export_uses_readable_quantities() {
    let exported = builtin().export();
    let types = exported["types"].as_array().unwrap();
    let machine = types.iter().find(|machine| machine["name"] == "m5.large").unwrap();
    assert_eq!(machine["capacity"]["cpu"], "2");
    assert_eq!(machine["capacity"]["memory"], "7577Mi");
    assert_eq!(machine["overhead"]["cpu"], "70m");
    assert_eq!(machine["overhead"]["memory"], "674Mi"); // 11*29 + 255 + 100
    assert_eq!(machine["labels"]["karpenter.k8s.aws/instance-family"], "m5");
    let first = json!({"zone": "us-east-1a", "capacityType": "on-demand", "priceUsdPerHour": 0.096});
    let offerings = machine["offerings"].as_array().unwrap();
    let at = offerings.iter().position(|offering| *offering == first).unwrap();
    let second = json!({"zone": "us-east-1a", "capacityType": "spot", "priceUsdPerHour": 0.0336, "estimated": true});
    assert_eq!(offerings[at + 1], second);
    let regions = exported["regions"].as_array().unwrap();
    let zones = ["a", "b", "c"].map(|letter| format!("eu-north-1{letter}"));
    let north = json!({"name": "eu-north-1", "zones": zones, "spotRatio": 0.204, "priceDate": "2026-05-12"});
    assert!(regions.contains(&north), "{regions:?}");
}

#[test]
fn capacity_and_overhead_are_taken_as_written() {
    let snapshot = read(&small()).unwrap();
    let kubelet = KubeletSettings { max_pods: Some(20), ..KubeletSettings::default() };
    let reserved = [("cpu", 1000)].into_iter().collect();
    let reserving = KubeletSettings { system_reserved: reserved, ..KubeletSettings::default() };
    let built = |kubelet| {
        build(&snapshot, &RegionOptions::new("rack"), &NodeClassSettings { kubelet, ..NodeClassSettings::default() })
    };
    let machine = built(kubelet);
    let allocatable = &find(&machine, "box").allocatable;
    assert_eq!((allocatable.get("cpu"), allocatable.get("memory"), allocatable.get(PODS)), (7500, 30 << 30, 20));
    assert_eq!(allocatable.get("ephemeral-storage"), 100 << 30);
    assert!(machine.notes.is_empty(), "{:?}", machine.notes);
    let ignored = built(reserving);
    assert_eq!(find(&ignored, "box").allocatable.get("cpu"), 7500);
    assert!(ignored.notes.iter().any(|note| note.contains("systemReserved")), "{:?}", ignored.notes);
}

#[test]
fn without_an_overhead_the_kubelet_decides() {
    let mut file = small();
    let machine = file["types"][0].as_object_mut().unwrap();
    machine.remove("overhead");
    machine.insert("capacity".into(), json!({"cpu": "8", "memory": "32Gi", "attachable-volumes-csi.example.com": 5}));
    let built = build(&read(&file).unwrap(), &RegionOptions::new("rack"), &NodeClassSettings::default());
    let allocatable = &find(&built, "box").allocatable;
    // 60 + 10 + 2 * 5 + 4 * 2.5 = 90 millicores; 11 * 110 + 255 + 100 = 1565 MiB; 20 GiB of disk
    // less 1 and 2.
    assert_eq!(
        (allocatable.get("cpu"), allocatable.get("memory"), allocatable.get(PODS)),
        (7910, (32 << 30) - 1565 * MIB, 110)
    );
    assert_eq!(allocatable.get("ephemeral-storage"), 17 << 30);
    assert_eq!(allocatable.get("attachable-volumes-csi.example.com"), 5);
}

#[test]
fn mistakes_are_named_with_place_finding_and_remedy() {
    // Each case sets one pointer of the small file, so that the message can only be about that
    // field.
    for (pointer, value, expected) in [
        ("/kind", json!("Catalog"), r#"catalogue, kind: found "Catalog"; allowed: "Catalogue""#),
        ("/regions", json!([]), "catalogue, regions: found no region"),
        (
            "/regions/-",
            json!({"name": "rack", "zones": []}),
            r#"catalogue, regions[1].name: found "rack" a second time"#,
        ),
        (
            "/regions/-",
            json!({"name": "b", "zones": ["rack-1"]}),
            r#"catalogue, regions[1].zones[0]: found "rack-1" a second time"#,
        ),
        (
            "/types/-",
            json!({"name": "box", "capacity": {"cpu": 1, "memory": 1}}),
            r#"catalogue, types[1] (box).name: found "box" a second time"#,
        ),
        ("/regions/0/spotRatio", json!(35), "regions[0].spotRatio: found 35; allowed: a share of the on-demand price"),
        ("/regions/0/priceDate", json!(7), "regions[0].priceDate: found the number 7"),
        ("/types/-", json!({"capacity": {}}), "catalogue, types[1].name: found nothing"),
        (
            "/types/0/capcity",
            json!({}),
            r#"catalogue, types[0] (box): found the field "capcity"; allowed: name, labels, capacity"#,
        ),
        ("/types/0/capacity", json!({"cpu": "8"}), "catalogue, types[0] (box).capacity.memory: found nothing"),
        ("/types/0/capacity/cpu", json!("0"), "catalogue, types[0] (box).capacity.cpu: found 0"),
        ("/types/0/capacity/cpu", json!("eight"), r#"catalogue, types[0] (box).capacity.cpu: found "eight""#),
        ("/types/0/capacity/cpu", json!(-1), r#"catalogue, types[0] (box).capacity.cpu: found "-1""#),
        (
            "/types/0/overhead/cpu",
            json!("9"),
            "catalogue, types[0] (box).overhead.cpu: found 9; allowed: at most the capacity, 8",
        ),
        ("/types/0/labels", json!({"topology.kubernetes.io/zone": "x"}), "zone, region, capacity type"),
        ("/types/0/labels/example.com", json!("a b"), r#"labels.example.com: found "a b"; allowed: at most 63"#),
        ("/types/0/labels/node.kubernetes.io", json!(3), "found the number 3; allowed: a text"),
        ("/types/0/offerings/0/zone", json!("rack-9"), r#"offerings[0].zone: found "rack-9"; allowed: rack-1, rack-2"#),
        (
            "/types/0/offerings/0/capacityType",
            json!("reserved"),
            r#"capacityType: found "reserved"; allowed: "on-demand", "spot""#,
        ),
        (
            "/types/0/offerings/0/priceUsdPerHour",
            json!(-0.1),
            "priceUsdPerHour: found -0.1; allowed: a number of dollars per hour",
        ),
        ("/types/0/offerings/0/priceUsdPerHour", json!("1"), r#"priceUsdPerHour: found the text "1""#),
        ("/types/0/offerings/0/estimated", json!(1), "estimated: found the number 1; allowed: true or false"),
        (
            "/types/0/offerings/-",
            json!({"zone": "rack-1", "capacityType": "on-demand"}),
            "offerings[1]: found the same zone",
        ),
        (
            "/types/0/onDemandUsdPerHour",
            json!({"mars": 1}),
            r#"onDemandUsdPerHour.mars: found the region "mars"; allowed: rack"#,
        ),
    ] {
        let message = refusal(pointer, value);
        assert!(message.contains(expected), "{pointer}: {message}");
    }
    assert!(Snapshot::parse(b"{").unwrap_err().to_string().contains("not JSON"));
}
