//! Moves kubelet settings from pools to their classes: v1 has them on classes only.
//!
//! A class whose pools differ is split: pools without a block keep the class; if every pool has a
//! block, the pools with the block of the alphabetically first pool keep it. Each other block gets
//! a copy of the class.

use std::collections::BTreeMap;

use serde_json::Value;

use super::record::Reporter;
use super::shape::{Fields, has, join, map, map_mut, take, take_map};

/// Removes the block at `right` (or at `wrong`, which is a guess) from `fields`, with reserved
/// amounts as strings.
pub(super) fn take_block(
    reporter: &mut Reporter<'_, '_>,
    fields: &mut Fields,
    prefix: &str,
    right: &str,
    wrong: &str,
) -> Option<Fields> {
    let misplaced = !has(fields, right) && has(fields, wrong);
    let key = if misplaced { wrong } else { right };
    let mut block = take_map(reporter, fields, prefix, key)?;
    let path = join(prefix, key);
    if misplaced {
        reporter.guess(&path, format!("is called {right} here"), format!("there is no such field here; write {right}"));
    }
    reporter.note(&path, "is in spec.kubelet of the EC2NodeClass in v1");
    if take(&mut block, "containerRuntime").is_some() {
        reporter.note(&join(&path, "containerRuntime"), "dropped, containerd is the only one");
    }
    tidy_reserved(reporter, &path, &mut block);
    Some(block)
}

/// Converts numeric amounts to strings, as v1 requires.
pub(super) fn tidy_reserved(reporter: &mut Reporter<'_, '_>, path: &str, block: &mut Fields) {
    for key in ["systemReserved", "kubeReserved"] {
        for (resource, amount) in map_mut(block, key).into_iter().flatten() {
            if amount.is_number() {
                reporter.note(&format!("{path}.{key}.{resource}"), format!("{amount} must be in quotes"));
                *amount = Value::from(amount.to_string());
            }
        }
    }
}

/// Result of assigning blocks to one class.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Assignment {
    /// The new block of the class; `None` leaves the class unchanged.
    pub(super) kept: Option<Fields>,
    /// Copies of the class: name, block, pools that are moved to it.
    pub(super) copies: Vec<(String, Fields, Vec<String>)>,
}

/// Assigns blocks to classes. `pools` have their own block or none; `own` is the class's block.
pub(super) fn assign(
    class: &str,
    own: Option<&Fields>,
    pools: &BTreeMap<String, Option<Fields>>,
    taken: &dyn Fn(&str) -> bool,
) -> Assignment {
    if pools.values().all(Option::is_none) {
        return Assignment::default();
    }
    let default = own.cloned().unwrap_or_default();
    let mut groups: Vec<(Fields, Vec<String>)> = Vec::new();
    for (pool, block) in pools {
        let block = block.clone().unwrap_or_else(|| default.clone());
        match groups.iter_mut().find(|(known, _)| *known == block) {
            Some((_, members)) => members.push(pool.clone()),
            None => groups.push((block, vec![pool.clone()])),
        }
    }
    let keeper = groups.iter().position(|(block, _)| *block == default).unwrap_or(0);
    let (kept, _) = groups.remove(keeper);
    let copies = groups.into_iter().map(|(block, pools)| (copy_name(class, &pools[0], taken), block, pools));
    Assignment { kept: Some(kept), copies: copies.collect() }
}

/// `<class>-<pool>`, truncated and with a hash if it is longer than a DNS label.
fn copy_name(class: &str, pool: &str, taken: &dyn Fn(&str) -> bool) -> String {
    const LONGEST: usize = 63;
    let full = format!("{class}-{pool}");
    let hash = full.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    if full.len() <= LONGEST && !taken(&full) {
        return full;
    }
    let head: String = full.chars().take(LONGEST - 9).collect();
    format!("{head}-{hash:08x}")
}

/// `spec.kubelet` of a class.
pub(super) fn of_class(class: &Fields) -> Option<&Fields> {
    map(map(class, "spec")?, "kubelet")
}

/// Sets `spec.kubelet` of a class.
pub(super) fn set_block(class: &mut Fields, block: Fields) {
    let Some(spec) = map_mut(class, "spec") else { return };
    if block.is_empty() {
        spec.shift_remove("kubelet");
    } else {
        spec.insert("kubelet".to_owned(), Value::Object(block));
    }
}
