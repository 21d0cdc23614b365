//! Converts AWSNodeTemplate, EC2NodeClass of v1beta1, and the inline classes of pools to
//! EC2NodeClass of v1.

use model::quantity;
use serde_json::Value;

use super::context::Context;
use super::kind::ApiGeneration;
use super::metadata::annotation;
use super::record::{FIELD_OF_V1, Reporter};
use super::reference::STAND_IN;
use super::selectors::{GROUPS, SUBNETS};
use super::shape::{Fields, has, join, map, map_mut, scalar, take};
use super::{images, kubelet, metadata_options, selectors};

/// Tags that the system sets, and that users may not set.
const OWN_TAGS: [&str; 6] = [
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.sh/provisioner-name",
    "karpenter.sh/managed-by",
    "karpenter.k8s.aws/ec2nodeclass",
    "eks:eks-cluster-name",
];
/// Fields of a class that users misplace in a pool's spec.
const STRAY: [&str; 12] = [
    "amiFamily",
    "amiSelector",
    "amiSelectorTerms",
    "subnetSelector",
    "subnetSelectorTerms",
    "securityGroupSelector",
    "securityGroupSelectorTerms",
    "role",
    "instanceProfile",
    "blockDeviceMappings",
    "tags",
    "userData",
];
const POD_DENSITY: &str = "aws.enableENILimitedPodDensity: false in karpenter-global-settings meant 110 pods a node; write spec.kubelet.maxPods: 110 into the class to keep that";

/// Converts the spec of the class `object` to v1. `version` is the alias version that release 1.0
/// annotated.
pub(super) fn convert(
    reporter: &mut Reporter<'_, '_>,
    object: &mut Fields,
    age: ApiGeneration,
    version: Option<&str>,
    context: &Context,
) {
    let Some(Value::Object(mut spec)) = object.get_mut("spec").map(Value::take) else { return };
    tidy_spec(reporter, "spec", &mut spec, age, version, context);
    object.insert("spec".to_owned(), Value::Object(spec));
}

/// The alias version that release 1.0 annotated on a class; must be called before annotations are
/// removed. A class that 1.0 could not convert (Ubuntu without images) is an error: its image id is
/// a placeholder.
pub(super) fn noted_version(reporter: &mut Reporter<'_, '_>, object: &Fields) -> Option<String> {
    const UBUNTU: &str = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu";
    if annotation(object, UBUNTU).is_some_and(|ubuntu| ubuntu.contains("incompatible")) {
        reporter.refuse_launch(&join("metadata.annotations", UBUNTU), "the image id in this class is a placeholder for Ubuntu images that v1 does not find; give amiSelectorTerms");
    }
    annotation(object, "compatibility.karpenter.k8s.aws/v1-alias-version").map(str::to_owned)
}

fn tidy_spec(
    reporter: &mut Reporter<'_, '_>,
    prefix: &str,
    spec: &mut Fields,
    age: ApiGeneration,
    version: Option<&str>,
    context: &Context,
) {
    take_launch_template(reporter, prefix, spec);
    images::tidy(reporter, prefix, spec, age, version);
    selectors::tidy(reporter, prefix, spec, &SUBNETS, age);
    selectors::tidy(reporter, prefix, spec, &GROUPS, age);
    tidy_identity(reporter, prefix, spec, age, context);
    tidy_tags(reporter, prefix, spec, age, context);
    tidy_disks(reporter, prefix, spec, age);
    metadata_options::tidy(reporter, prefix, spec, age, context.ipv6);
    if age == ApiGeneration::Alpha {
        for key in ["associatePublicIPAddress", "instanceStorePolicy", "kubelet"] {
            if has(spec, key) {
                reporter.guess(&join(prefix, key), "is no field of v1alpha1; read as v1 does", FIELD_OF_V1);
            }
        }
        if context.settings.flat_pod_density {
            reporter.behaviour(POD_DENSITY);
        }
    }
    if let Some(block) = map_mut(spec, "kubelet") {
        kubelet::tidy_reserved(reporter, &join(prefix, "kubelet"), block);
    }
}

/// Custom launch templates were removed in v1beta1. A plan treats such a class as one with custom
/// images.
fn take_launch_template(reporter: &mut Reporter<'_, '_>, prefix: &str, spec: &mut Fields) {
    for key in ["launchTemplate", "launchTemplateName"] {
        if take(spec, key).is_some() {
            reporter.refuse_launch(
                &join(prefix, key),
                "v1 takes no launch template; give amiSelectorTerms, securityGroupSelectorTerms, role or instanceProfile, userData and blockDeviceMappings instead",
            );
            spec.insert("amiFamily".to_owned(), Value::from("Custom"));
        }
    }
}

/// Converts role and instance profile; v1 requires exactly one of them.
fn tidy_identity(
    reporter: &mut Reporter<'_, '_>,
    prefix: &str,
    spec: &mut Fields,
    age: ApiGeneration,
    context: &Context,
) {
    let path = join(prefix, "instanceProfile");
    if age == ApiGeneration::V1 {
        return;
    }
    match (has(spec, "role"), has(spec, "instanceProfile")) {
        (true, true) => {
            spec.shift_remove("instanceProfile");
            reporter.guess(&path, "dropped, the role beside it goes first", "role is set too; remove one of the two");
        }
        (true, false) if age == ApiGeneration::Alpha => {
            reporter.guess(&join(prefix, "role"), "is no field of v1alpha1; read as v1 does", FIELD_OF_V1)
        }
        (true, false) | (false, true) => {}
        (false, false) => add_identity(reporter, &path, spec, context),
    }
}

fn add_identity(reporter: &mut Reporter<'_, '_>, path: &str, spec: &mut Fields, context: &Context) {
    let options = reporter.options();
    let (key, value, from) = if let Some(profile) = &context.settings.instance_profile {
        ("instanceProfile", profile, "aws.defaultInstanceProfile of karpenter-global-settings")
    } else if let Some(role) = &options.node_role {
        ("role", role, "as specified")
    } else if let Some(profile) = &options.instance_profile {
        ("instanceProfile", profile, "as specified")
    } else {
        reporter.refuse_launch(
            path,
            "v1 needs an instance profile or a role; write one, or give --instance-profile or --node-role",
        );
        if reporter.plans() {
            spec.insert("role".to_owned(), Value::from("unknown"));
        }
        return;
    };
    reporter.note(path, format!("added: {key} {value}, {from}"));
    spec.insert(key.to_owned(), Value::from(value.as_str()));
}

fn tidy_tags(reporter: &mut Reporter<'_, '_>, prefix: &str, spec: &mut Fields, age: ApiGeneration, context: &Context) {
    let path = join(prefix, "tags");
    if age == ApiGeneration::V1 {
        return;
    }
    let mut tags = map(spec, "tags").cloned().unwrap_or_default();
    let doomed: Vec<String> = tags
        .keys()
        .filter(|key| OWN_TAGS.contains(&key.as_str()) || key.starts_with("kubernetes.io/cluster"))
        .cloned()
        .collect();
    for key in doomed {
        tags.shift_remove(&key);
        reporter.note(&join(&path, &key), "dropped, the system sets this tag itself");
    }
    if age == ApiGeneration::Alpha {
        for (key, value) in context.settings.tags.iter().filter(|(key, _)| !OWN_TAGS.contains(&key.as_str())) {
            if !tags.contains_key(key) {
                reporter.note(&join(&path, key), "added: aws.tags of karpenter-global-settings");
                tags.insert(key.clone(), value.clone());
            }
        }
    }
    if tags.is_empty() {
        spec.shift_remove("tags");
    } else {
        spec.insert("tags".to_owned(), Value::Object(tags));
    }
}

/// A new class for the `provider` of the pool called `pool`: its name and the object.
pub(super) fn inline(
    reporter: &mut Reporter<'_, '_>,
    mut spec: Fields,
    path: &str,
    pool: &str,
    context: &Context,
) -> (String, Fields) {
    let taken = context.classes.iter().any(|class| class == pool);
    let name = if taken { format!("{pool}-inline") } else { pool.to_owned() };
    reporter.note(path, format!("becomes EC2NodeClass {name}"));
    tidy_spec(reporter, path, &mut spec, ApiGeneration::Alpha, None, context);
    (name.clone(), object(&name, spec))
}

/// Removes fields of a class from the spec of the pool called `pool`; without a reference they
/// become a new class.
pub(super) fn take_stray(
    reporter: &mut Reporter<'_, '_>,
    spec: &mut Fields,
    pool: &str,
    refers: bool,
    context: &Context,
) -> Option<(String, Fields)> {
    let present: Vec<&str> = STRAY.into_iter().filter(|key| has(spec, key)).collect();
    let mut class = Fields::new();
    for key in spec.keys().cloned().collect::<Vec<String>>() {
        if STRAY.contains(&key.as_str())
            && let Some(value) = take(spec, &key)
        {
            class.insert(key, value);
        }
    }
    for key in &present {
        let (what, refusal) = if refers {
            (
                "ignored, it belongs into the class that is named",
                "is no field of a NodePool; write it into the class that is named",
            )
        } else {
            (
                "belongs into an EC2NodeClass; one named after the pool gets it",
                "is no field of a NodePool; write it into an EC2NodeClass and name that in nodeClassRef",
            )
        };
        reporter.guess(&join("spec", key), what, refusal);
    }
    if refers || present.is_empty() {
        return None;
    }
    Some(inline(reporter, class, "spec", pool, context))
}

/// The placeholder class for pools without a class, in plans.
pub(super) fn stand_in() -> Fields {
    let spec = serde_json::json!({
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"id": SUBNETS.example}],
        "securityGroupSelectorTerms": [{"id": GROUPS.example}],
        "role": "unknown",
    });
    object(STAND_IN, spec.as_object().cloned().unwrap_or_default())
}

fn object(name: &str, spec: Fields) -> Fields {
    let mut object = Fields::new();
    object.insert("apiVersion".to_owned(), Value::from("karpenter.k8s.aws/v1"));
    object.insert("kind".to_owned(), Value::from("EC2NodeClass"));
    object.insert("metadata".to_owned(), serde_json::json!({"name": name}));
    object.insert("spec".to_owned(), Value::Object(spec));
    object
}

const GIB: i64 = 1 << 30;

/// Converts `blockDeviceMappings`: v1 requires sizes in whole Gi, G, Ti or T.
fn tidy_disks(reporter: &mut Reporter<'_, '_>, prefix: &str, spec: &mut Fields, age: ApiGeneration) {
    let path = join(prefix, "blockDeviceMappings");
    let disks = spec.get_mut("blockDeviceMappings").and_then(Value::as_array_mut).into_iter().flatten().enumerate();
    for (index, disk) in disks.filter_map(|(index, disk)| Some((index, disk.as_object_mut()?))) {
        let path = format!("{path}[{index}].ebs");
        let Some(ebs) = map_mut(disk, "ebs") else {
            if age != ApiGeneration::V1 {
                reporter.refuse(&path, "missing, but required; give the volume's size or snapshot");
            }
            continue;
        };
        if age != ApiGeneration::V1 && !has(ebs, "volumeSize") && !has(ebs, "snapshotID") {
            reporter.refuse(&path, "needs volumeSize, snapshotID or both");
        }
        tidy_disk_size(reporter, &join(&path, "volumeSize"), ebs);
    }
}

fn tidy_disk_size(reporter: &mut Reporter<'_, '_>, path: &str, ebs: &mut Fields) {
    let Some(written) = ebs.get("volumeSize").filter(|value| !value.is_null()) else { return };
    let Some(text) = scalar(written) else { return };
    let whole = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if written.is_string() && ["Gi", "Ti", "G", "T"].iter().any(|unit| text.strip_suffix(unit).is_some_and(whole)) {
        return;
    }
    if whole(&text) {
        reporter.guess(
            path,
            format!("found {text} without a unit, read as {text}Gi"),
            format!("found {text} without a unit; write {text}Gi"),
        );
        ebs.insert("volumeSize".to_owned(), Value::from(format!("{text}Gi")));
        return;
    }
    let Ok(bytes) = quantity::parse("memory", &text) else { return };
    let size = format!("{}Gi", bytes.saturating_add(GIB - 1) / GIB);
    let rounded = if bytes % GIB == 0 { "" } else { ", rounded up" };
    reporter.note(path, format!("{text} is written {size}{rounded}; v1 takes whole Gi, G, Ti or T"));
    ebs.insert("volumeSize".to_owned(), Value::from(size));
}
