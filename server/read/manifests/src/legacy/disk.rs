//! `blockDeviceMappings`: v1 requires sizes in whole Gi, G, Ti or T.

use model::quantity;
use serde_json::Value;

use super::kind::ApiGeneration;
use super::record::Reporter;
use super::shape::{Fields, has, join, map_mut, scalar};

const GIB: i64 = 1 << 30;

/// Converts the disks of `spec` to v1.
pub(super) fn tidy(reporter: &mut Reporter<'_, '_>, prefix: &str, spec: &mut Fields, age: ApiGeneration) {
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
        tidy_size(reporter, &join(&path, "volumeSize"), ebs);
    }
}

fn tidy_size(reporter: &mut Reporter<'_, '_>, path: &str, ebs: &mut Fields) {
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
